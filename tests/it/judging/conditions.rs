//! `metrics_conditions`, judged once more by the manager.

use serde_json::{Value, json};

use super::{Meter, judged, look_until};
use crate::{
    virtual_time::VirtualTime,
    world::{World, summary},
};

const STAGE: &str = "Canary 5 Percent";

/// A query that is always good, beside the conditions of the canary.
const BLOCK: &str = "duration: 1s, interval: 1s, \
    metrics: [{name: load, provider: meter, query: '?v={{ .Variant.Name }}', expected: {max: 10}}]";

const PAUSES: &str = "rollout: {on_failure: pause}\n";

/// What follows when the only child is ready to end its stage with such a median of the new version.
async fn judge(median: f64) -> Value {
    let (world, shown) = judge_with(median, "").await;
    world.stop().await;
    shown
}

async fn judge_with(median: f64, rollout: &str) -> (World, Value) {
    let meter = Meter::start().await;
    meter.say(Ok(vec![3.0]), Err(500));
    let world = World::with(|options| meter.known_to(options)).await;
    let child = world.child().await;
    world.submit(&(judged("it", BLOCK) + rollout)).await.ok();
    let (_, offer) = world.poll(&child).await;
    world.fetch(&child, &offer).await.ok();
    let mut waiting = summary(STAGE, 2);
    waiting["f2_times_summary"] = json!({"median": median, "minimum": median, "maximum": median});
    let body = json!({"id": child, "release_id": offer, "stage_summaries": [waiting], "next_stage": ""});
    world.post("/result", &body).await.ok();
    let shown = look_until(&world, "it", |shown| shown["analyses"][0]["verdict"].is_string()).await;
    (world, shown)
}

#[tokio::test]
async fn a_child_that_reports_success_without_a_call_is_no_data() {
    let _time = VirtualTime::begin();
    let shown = judge(-1.0).await;
    insta::assert_snapshot!(shown["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: no data: metrics_conditions: errorRate <0.02: 1 of 1 successful children measured nothing");
    // Its own word is kept beside it.
    assert_eq!(shown["stages"][0]["children"]["SuccessWaiting"], 1, "{shown:#}");
}

#[tokio::test]
async fn a_child_that_reports_success_although_a_condition_fails_is_not_believed() {
    let _time = VirtualTime::begin();
    let shown = judge(900.0).await;
    insta::assert_snapshot!(shown["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: fail: metrics_conditions: responseTime <=250 Median: 1 of 1 successful children don't keep it, one has 900");
}

#[tokio::test]
async fn a_child_that_keeps_the_conditions_passes() {
    let _time = VirtualTime::begin();
    let shown = judge(90.0).await;
    insta::assert_snapshot!(shown["analyses"][0]["why"].as_str().unwrap(), @"load: 3 is at most 10; 0 of 1 measurements were outside, 0 are borne; metrics_conditions: errorRate <0.02: 1 of 1 successful children keep it; metrics_conditions: responseTime <=250 Median: 1 of 1 successful children keep it");
    assert_eq!(shown["analyses"][0]["verdict"], "pass");
}

#[tokio::test]
async fn stage_failed_by_analysis_stays_failed_after_resume_and_restart() {
    let _time = VirtualTime::begin();
    let (world, passed) = judge_with(90.0, PAUSES).await;
    assert_eq!(passed["stages"][0].get("failed"), None, "{passed:#}");
    world.stop().await;
    let (world, failed) = judge_with(900.0, PAUSES).await;
    assert_eq!(
        (&failed["state"], &failed["stages"][0]["failed"]),
        (&json!("Paused"), &json!(true)),
        "{failed:#}"
    );
    world.call("POST", "/api/v1/releases/it/resume").await.ok();
    let on = world.get("/api/v1/releases/it").await.ok().json();
    assert_eq!((&on["state"], &on["stages"][0]["failed"]), (&json!("Running"), &json!(true)), "{on:#}");
    let world = world.restart().await;
    assert_eq!(world.get("/api/v1/releases/it").await.ok().json()["stages"][0]["failed"], true);
    world.stop().await;
}
