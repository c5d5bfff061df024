//! What differs between two strategies, in lines.

use choirmaster::cli::release::differences;
use serde_json::Value;

const CANARY: &str = include_str!("../../../releases/canary.yml");

fn between(before: &str, after: &str) -> String {
    let read = |text: &str| language::check(text).strategy.unwrap();
    differences(&read(before), &read(after)).join("\n")
}

#[test]
fn a_strategy_does_not_differ_from_itself_however_it_is_written() {
    assert_eq!(between(CANARY, CANARY), "");
    let respelled = CANARY.replace("threshold: \"200\"", "threshold: 200 # calls").replace("2s", "2000ms");
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
    stage "Canary 5 Percent": at least: 2s and 200 calls → 1m and 200 calls
    stage "Canary 5 Percent": conditions: [errorRate < 0.02, Median <= 250] → [errorRate < 0.01, Median <= 250]
    "#);
}

#[test]
fn which_agents_run_a_function_is_one_line() {
    let of = |labels: &str| {
        CANARY.replacen(
            "    base_version:",
            &format!("    agents: {{labels: {labels}}}\n    base_version:"),
            1,
        )
    };
    insta::assert_snapshot!(between(CANARY, &of("{tier: edge}")), @r#"+ function "sieve": agents: tier=edge"#);
    insta::assert_snapshot!(between(&of("{tier: edge}"), &of("{tier: edge, zone: a}")), @r#"function "sieve": agents: tier=edge → tier=edge, zone=a"#);
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

#[test]
fn blocks_are_compared_whole() {
    let with = |block: &str| CANARY.to_owned() + block;
    let area = |east: f64| format!("[[[13, 52], [{east}, 52], [{east}, 53], [13, 53], [13, 52]]]");
    let before = with(&format!(
        "target: {{area: {{type: Polygon, coordinates: {}}}, labels: {{tier: edge}}}}\nforward_up: true\nrollout: {{order: \
         waves, waves: [1, 10%, 100%], max_failed: 2, soak: 10m, approval: before_each_wave, start: \
         2030-01-01T00:00:00Z}}\n",
        area(14.0)
    ));
    let after = with(&format!(
        "target: {{area: {{type: Polygon, coordinates: {}}}, labels: {{tier: core, rack: a}}, partial: allow}}\nrollout: \
         {{order: waves, waves: [5, 100%], max_failed: 2%, soak: 11m, on_failure: pause, late_joiners: include, \
         max_in_progress: 7, approval: before_rollout, approval_timeout: 1h}}\n",
        area(15.0)
    ));
    insta::assert_snapshot!(between(&before, &after), @r"
    - forward_up: true
    target: area: 5 corners from 13, 52 to 14, 53 (de3a4b) → 5 corners from 13, 52 to 15, 53 (213267)
    target: labels: tier: edge → core
    target: partial: refuse → allow
    rollout: approval: of: waves → rollout
    rollout: approval: timeout: 6h → 1h
    rollout: late_joiners: exclude → include
    rollout: max_failed: 2 → 2%
    rollout: on_failure: rollback → pause
    rollout: order: waves: [1, 10%, 100%] → [5, 100%]
    rollout: soak: 10m → 11m
    - rollout: start_ms: 2030-01-01T00:00:00Z
    + target: labels: rack: a
    + rollout: max_in_progress: 7
    ");
    insta::assert_snapshot!(between(CANARY, &after), @r"
    + target
    + rollout
    ");
    let parallel = with("rollout: {order: parallel}\n");
    insta::assert_snapshot!(between(&parallel, &with("rollout: {order: global_incremental}\n")), @"rollout: order: parallel → global_incremental");
}

#[test]
fn analyses_are_compared_metric_by_metric() {
    let judged = include_str!("../../../releases/judged.yml");
    let other = judged.replace("tolerance: 5%", "tolerance: 6%").replace("interval: 1m", "interval: 2m");
    assert_ne!(judged, other);
    insta::assert_snapshot!(between(judged, &other), @r#"
    rollout: analysis: interval: 1m → 2m
    stage "Canary 20 Percent": analysis: interval: 1m → 2m
    "#);
}

/// Every value of a stored strategy, each changed alone.
fn changed(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, inner)| {
                // Durations are whole milliseconds.
                let others = match inner.as_u64().filter(|_| key == "nanos") {
                    Some(nanos) => vec![(1_000_000 - nanos.min(1_000_000)).into()],
                    None => changed(inner),
                };
                others.into_iter().map(move |inner| {
                    let mut map = map.clone();
                    map.insert(key.clone(), inner);
                    Value::Object(map)
                })
            })
            .collect(),
        Value::Array(items) => (0..items.len())
            .flat_map(|at| {
                changed(&items[at]).into_iter().map(move |inner| {
                    let mut items = items.clone();
                    items[at] = inner;
                    Value::Array(items)
                })
            })
            .collect(),
        Value::Bool(truth) => vec![Value::Bool(!truth)],
        Value::Number(number) => match number.as_u64() {
            Some(number) => vec![(number ^ 1).into()],
            None => vec![(number.as_f64().unwrap() + 0.5).into()],
        },
        Value::String(text) => vec![format!("{text}x").into()],
        Value::Null => Vec::new(),
    }
}

#[test]
fn nothing_that_a_strategy_says_is_overlooked() {
    let mut seen = 0;
    for (_, text) in crate::texts::samples() {
        let strategy = language::check(&text).strategy.unwrap();
        for other in changed(&serde_json::to_value(&strategy).unwrap()) {
            // A word that is none of a few is no other strategy.
            let Ok(other) = serde_json::from_value::<language::Strategy>(other) else { continue };
            if other == strategy {
                continue;
            }
            seen += 1;
            assert!(!differences(&strategy, &other).is_empty(), "{other:?}");
        }
    }
    assert!(seen > 300, "{seen}");
}
