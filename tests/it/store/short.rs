//! The short form of plain results on Postgres.

use store::{
    rows::{AssignmentRow, StageResultRow},
    tried_alone::postgres::{Folded, fold, shorten},
};

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
fn only_plain_summaries_have_a_short_form() {
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
fn one_plain_result_per_child_is_stored_inline_others_separately() {
    let results = [row(1, 0, PLAIN), row(2, 0, PLAIN), row(2, 1, PLAIN), row(3, 0, PLAIN), row(4, 0, "{}")];
    let assignments = [assignment(4), assignment(2), assignment(1)];
    let Folded { short, others } = fold(&assignments, &results, 7);
    assert_eq!(short.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(others, [&results[2], &results[3], &results[4]]);
}
