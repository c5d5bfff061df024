//! What differs between two strategies, in lines.

use choirmaster::{cli::release::differences, strategy};

const CANARY: &str = include_str!("../../../releases/canary.yml");

fn between(before: &str, after: &str) -> String {
    let read = |text: &str| strategy::check(text).strategy.unwrap();
    differences(&read(before), &read(after)).join("\n")
}

#[test]
fn a_strategy_does_not_differ_from_itself_however_it_is_written() {
    assert_eq!(between(CANARY, CANARY), "");
    let respelled = CANARY.replace("threshold: \"50\"", "threshold: 50 # calls").replace("2s", "2000ms");
    assert_eq!(between(CANARY, &respelled), "");
}

#[test]
fn what_was_changed_is_named_with_both_values() {
    let changed = CANARY
        .replace("id: canary", "id: canary-2")
        .replace("fns/sieve_new", "fns/sieve_newer")
        .replace("trafficPercentage: 95", "trafficPercentage: 80")
        .replace("trafficPercentage: 5\n", "trafficPercentage: 20\n")
        .replace("<0.02", "<0.01")
        .replace("threshold: 2s", "threshold: 1m");
    insta::assert_snapshot!(between(CANARY, &changed), @"");
}

#[test]
fn a_stage_that_is_on_one_side_only_is_one_line() {
    let two_stage = include_str!("../../../releases/two-stage.yml").replace("id: two-stage", "id: canary");
    insta::assert_snapshot!(between(CANARY, &two_stage), @"");
}
