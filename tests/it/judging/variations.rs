//! A service of three variations, judged by what the agents beside its routers report of each.

use serde_json::{Value, json};

use super::{events, in_state, look_until};
use crate::{
    virtual_time::VirtualTime,
    world::{AREA, World},
};

/// `analysis`: what is below the stage's block.
fn three(id: &str, metrics: &str) -> String {
    format!(
        "id: {id}\nname: {id}\nservices:\n  - name: checkout\n    ports: [{{port: 8080}}]\n    variations:\n      - {{name: A, targets: \
         [\"127.0.0.1:9101\"]}}\n      - {{name: B, targets: [\"127.0.0.1:9111\"]}}\n      - {{name: C, targets: [\"127.0.0.1:9121\"]}}\n\
         rollout: {{order: global_incremental, on_failure: rollback}}\nstages:\n  - name: fifth\n    type: WaitForSignal\n    \
         shares: {{A: 80, B: 10, C: 10}}\n    end_conditions: [{{name: minCalls, threshold: \"10\"}}]\n    end_action: {{onSuccess: \
         rollout, onFailure: rollback}}\n    analysis:\n      duration: 1s\n      interval: 1s\n      metrics:\n{metrics}"
    )
}

const ERRORS: &str = "        - {name: errors, provider: children, metric: errorRate, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 50%}\n";

async fn router(world: &World, id: &str) -> (String, String) {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body = json!({"id": id, "geographic_area": area, "number_of_children": 0, "kind": "agent",
        "capabilities": {"leads": "whole", "routers": ["embedded"]}});
    let answer = world.post("/poll", &body).await.ok().json();
    (answer["id"].as_str().unwrap().to_owned(), answer["new_release"].as_str().unwrap().to_owned())
}

/// What one variation had: calls, errors, and the bucket of base 1.01 in which all times of the others are.
type Had = (u64, u64, i64);

async fn tells(world: &World, id: &str, had: [Had; 3]) {
    let sketch = |(calls, errors, bucket): Had| {
        json!({"mapping": {"gamma": 1.01, "indexOffset": 0.0},
            "positiveValues": {"contiguousBinCounts": [calls - errors], "contiguousBinIndexOffset": bucket}})
    };
    let mut summary = crate::world::summary("fifth", 2);
    for (side, (calls, errors, bucket)) in ["f1", "f2"].into_iter().zip(had) {
        summary[format!("{side}_calls")] = json!(calls);
        summary[format!("{side}_errors")] = json!(errors);
        summary[format!("{side}_err_rate")] = json!(errors as f64 / calls as f64);
        summary[format!("{side}_histogram")] = sketch((calls, errors, bucket));
    }
    let variation = |(name, had): (&str, Had)| json!({"name": name, "calls": had.0, "errors": had.1, "histogram": sketch(had)});
    summary["variations"] = ["A", "B", "C"].into_iter().zip(had).map(variation).collect();
    let body = json!({"id": id, "release_id": "r", "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

/// The verdict on the stage when one router told what each variation had, and why where it isn't good.
async fn judged(metrics: &str, had: [Had; 3]) -> (World, Value) {
    let world = World::start().await;
    let (id, _) = router(&world, "").await;
    router(&world, &id).await;
    world.submit(&three("r", metrics)).await.ok();
    assert_eq!(router(&world, &id).await.1, "r");
    world.fetch(&id, "r").await.ok();
    tells(&world, &id, had).await;
    let is_judged = |shown: &Value| !shown["analyses"][0]["verdict"].is_null();
    let shown = look_until(&world, "r", is_judged).await;
    (world, shown)
}

fn verdicts(shown: &Value) -> Vec<(&str, &str)> {
    let metrics = shown["analyses"][0]["metrics"].as_array().unwrap().iter();
    metrics.map(|of| (of["name"].as_str().unwrap(), of["verdict"].as_str().unwrap_or("-"))).collect()
}

/// One of a hundred calls fails.
const STABLE: Had = (320_000, 3_200, 300);
const WELL: Had = (40_000, 400, 300);

#[tokio::test]
async fn each_new_variation_is_judged_against_the_stable_one() {
    let _time = VirtualTime::begin();
    let (world, shown) = judged(ERRORS, [STABLE, WELL, WELL]).await;
    assert_eq!(verdicts(&shown), [("errors", "pass"), ("errors, C", "pass")], "{shown:#}");
    world.stop().await;
}

#[tokio::test]
async fn a_third_variation_that_fails_takes_the_release_back() {
    let _time = VirtualTime::begin();
    let (world, _) = judged(ERRORS, [STABLE, WELL, (40_000, 4_000, 300)]).await;
    in_state(&world, "r", "RollingBack").await;
    let why = events(&world, "r", "release_rolled_back").await[0]["reason"].as_str().unwrap().to_owned();
    assert!(why.contains("fail: errors, C"), "{why}");
    world.stop().await;
}

#[tokio::test]
async fn the_stable_version_set_up_a_second_time_is_the_baseline_of_the_new_one() {
    let _time = VirtualTime::begin();
    let metrics = "        - {name: beside, provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, \
                   baselineArgs: {variation: C}}\n        - {name: primary, provider: children, metric: responseTime, strategy: \
                   CANARY_PRIMARY, deviation: HIGH, primaryArgs: {variation: A}}\n";
    // What runs for long is warm: B is as fast as what was started with it, and slower than A.
    let (world, shown) = judged(metrics, [(320_000, 0, 300), (40_000, 0, 330), (40_000, 0, 330)]).await;
    assert_eq!(verdicts(&shown), [("beside", "pass"), ("primary", "fail")], "{shown:#}");
    world.stop().await;
}
