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
    insta::assert_snapshot!(between(CANARY, &changed), @r#"
    id: canary → canary-2
    function "sieve": new version: fns/sieve_new (nodejs) → fns/sieve_newer (nodejs)
    stage "Canary 5 Percent": traffic of the new version: 5 % → 20 %
    stage "Canary 5 Percent": at least: 2s and 50 calls → 1m and 50 calls
    stage "Canary 5 Percent": conditions: [errorRate < 0.02, Median <= 250] → [errorRate < 0.01, Median <= 250]
    "#);
}

#[test]
fn a_stage_that_is_on_one_side_only_is_one_line() {
    let two_stage = include_str!("../../../releases/two-stage.yml").replace("id: two-stage", "id: canary");
    insta::assert_snapshot!(between(CANARY, &two_stage), @r#"
    name: "Canary of the sieve, 5 percent" → "Sieve in two stages"
    type: patch → minor
    - stage "Canary 5 Percent"
    + stage "Canary"
    + stage "Comparison"
    "#);
}
