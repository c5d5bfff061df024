//! The short form of a plain result: its values without their names, in a line that lies in the row of its child.
//!
//! What is read back is the text that was written, byte for byte: a summary that is written in any other way, or holds
//! more than these values, has no short form. The view `results` of the migrations puts the names back.

use std::{collections::HashMap, fmt::Write as _};

use crate::rows::{AssignmentRow, StageResultRow};

/// What stands before each value of a summary.
const NAMES: [&str; 12] = [
    "{\"status\":\"",
    "\",\"proxy_times\":{\"median\":",
    ",\"minimum\":",
    ",\"maximum\":",
    "},\"f1_times_summary\":{\"median\":",
    ",\"minimum\":",
    ",\"maximum\":",
    "},\"f2_times_summary\":{\"median\":",
    ",\"minimum\":",
    ",\"maximum\":",
    "},\"f1_err_rate\":",
    ",\"f2_err_rate\":",
];

/// And before those that are all there or not at all.
const COUNTS: [&str; 4] = [",\"f1_calls\":", ",\"f2_calls\":", ",\"f1_errors\":", ",\"f2_errors\":"];

const END: &str = "}";

/// What goes into the row of a child beside its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Short {
    /// Equal for results of the same stage and attempt.
    pub key: i64,
    pub line: String,
}

/// The results of one batch.
#[derive(Debug)]
pub(super) struct Folded<'w> {
    /// Of each assignment, in their order.
    pub short: Vec<Option<Short>>,
    /// Those that need a row.
    pub others: Vec<&'w StageResultRow>,
}

/// Takes the results that go beside an assignment of the same batch out of the others. `seq` is that of the commit.
pub(super) fn fold<'w>(assignments: &[AssignmentRow], results: &'w [StageResultRow], seq: u64) -> Folded<'w> {
    let mut short: Vec<Option<Short>> = vec![None; assignments.len()];
    if results.is_empty() {
        return Folded { short, others: Vec::new() };
    }
    let places: HashMap<(u32, u32), usize> =
        assignments.iter().zip(0..).map(|(row, place)| ((row.release_key, row.child_key), place)).collect();
    let mut others = Vec::new();
    for row in results {
        let place = places.get(&(row.release_key, row.child_key)).and_then(|place| short.get_mut(*place));
        // The row has room for one a commit.
        match place.filter(|place| place.is_none()).zip(shorten(row, seq)) {
            Some((place, line)) => *place = Some(line),
            None => others.push(row),
        }
    }
    Folded { short, others }
}

fn shorten(row: &StageResultRow, seq: u64) -> Option<Short> {
    let StageResultRow { attempt, stage, status, at_ms, digest, summary, .. } = row;
    let mut line = String::with_capacity(summary.len() / 2);
    write!(line, "{attempt} {stage} {status} {at_ms} {digest} {seq}").ok()?;
    let rest = push_values(&mut line, summary, &NAMES)?;
    let rest = if rest == END { rest } else { push_values(&mut line, rest, &COUNTS)? };
    let key = i64::from(*attempt) << 16 | i64::from(*stage) & 0xffff;
    (rest == END).then_some(Short { key, line })
}

/// Adds the value after each name to the line; answers what follows in the text.
fn push_values<'t>(line: &mut String, mut text: &'t str, names: &[&str]) -> Option<&'t str> {
    for name in names {
        text = text.strip_prefix(name)?;
        let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')))?;
        let (value, rest) = text.split_at_checked(end).filter(|(value, _)| !value.is_empty())?;
        line.push(' ');
        line.push_str(value);
        text = rest;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "{\"status\":\"Completed\",\"proxy_times\":{\"median\":7.5,\"minimum\":4.9,\"maximum\":21.7},\
        \"f1_times_summary\":{\"median\":-1.0,\"minimum\":-1.0,\"maximum\":-1.0},\"f2_times_summary\":\
        {\"median\":6.6,\"minimum\":1e-7,\"maximum\":20.4},\"f1_err_rate\":0.0,\"f2_err_rate\":0.004}";

    fn row(child_key: u32, stage: i16, summary: &str) -> StageResultRow {
        let (release_key, attempt, status, at_ms, digest) = (1, 1, 2, 99, -5);
        let summary = summary.to_owned();
        StageResultRow { release_key, child_key, attempt, stage, status, at_ms, digest, summary }
    }

    fn assignment(child_key: u32) -> AssignmentRow {
        AssignmentRow {
            release_key: 1,
            child_key,
            status: 2,
            outcome: None,
            attempt: 1,
            stage: 0,
            stage_status: 2,
            updated_ms: 99,
            detail: "{}".to_owned(),
        }
    }

    #[test]
    fn a_plain_summary_is_its_values() {
        let line = "1 3 2 99 -5 7 Completed 7.5 4.9 21.7 -1.0 -1.0 -1.0 6.6 1e-7 20.4 0.0 0.004";
        assert_eq!(shorten(&row(4, 3, PLAIN), 7).map(|short| short.line).as_deref(), Some(line));
        let counted =
            PLAIN.replace("0.004}", "0.004,\"f1_calls\":10,\"f2_calls\":11,\"f1_errors\":0,\"f2_errors\":1}");
        let found = shorten(&row(4, 3, &counted), 7).map(|short| short.line);
        assert_eq!(found, Some(format!("{line} 10 11 0 1")));
    }

    #[test]
    fn whatever_else_a_summary_says_or_how_else_it_is_written_has_no_short_form() {
        for other in [
            PLAIN.replace("0.004}", "0.004,\"f1_calls\":10}"),
            PLAIN.replace("0.004}", "0.004,\"strata\":[]}"),
            PLAIN.replace("0.004}", "0.004} "),
            PLAIN.replace("7.5", "\"7 5\""),
            PLAIN.replace("7.5", ""),
            PLAIN.replace("7.5", "7.5 "),
            PLAIN.replace("{\"status\"", "{ \"status\""),
            PLAIN.replace("status", "state"),
            "{}".to_owned(),
            String::new(),
        ] {
            assert_eq!(shorten(&row(4, 3, &other), 7), None, "{other}");
        }
    }

    #[test]
    fn one_result_a_commit_goes_beside_the_state_of_its_child_and_the_others_get_rows() {
        let results =
            [row(1, 0, PLAIN), row(2, 0, PLAIN), row(2, 1, PLAIN), row(3, 0, PLAIN), row(4, 0, "{}")];
        let assignments = [assignment(4), assignment(2), assignment(1)];
        let Folded { short, others } = fold(&assignments, &results, 7);
        assert_eq!(short.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(others, [&results[2], &results[3], &results[4]]);
    }
}
