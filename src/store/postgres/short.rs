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
pub struct Short {
    /// Equal for results of the same stage and attempt.
    pub key: i64,
    pub line: String,
}

/// The results of one batch.
#[derive(Debug)]
pub struct Folded<'w> {
    /// Of each assignment, in their order.
    pub short: Vec<Option<Short>>,
    /// Those that need a row.
    pub others: Vec<&'w StageResultRow>,
}

/// Takes the results that go beside an assignment of the same batch out of the others. `seq` is that of the commit.
pub fn fold<'w>(assignments: &[AssignmentRow], results: &'w [StageResultRow], seq: u64) -> Folded<'w> {
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

pub fn shorten(row: &StageResultRow, seq: u64) -> Option<Short> {
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
