//! What an analysis needs is in the store and can't be read: it says so, and does not pass as if it were not there.

use serde_json::{Value, json};
use simulated_children::FleetKind;

use super::{Agents, in_state, judged, look_until, registered};
use crate::{
    virtual_time::VirtualTime,
    world::{STAGE, World, strategy, summary},
};

/// At the first look that has no answer it is over.
const REPORTED: &str = "duration: 600s, interval: 1s, consecutiveErrorLimit: 0, metrics: [{name: times, \
    provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}]";

fn found(shown: &Value) -> &str {
    shown["analyses"][0]["metrics"][0]["found"].as_str().unwrap()
}

async fn report(world: &World, child: &str, offer: &str, status: u8) {
    let mut summary = summary(STAGE, status);
    summary["strata"] =
        json!([{"split": 5, "interval": 7, "f1_calls": 95, "f1_errors": 0, "f2_calls": 5, "f2_errors": 0}]);
    let body = json!({"id": child, "release_id": offer, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

/// That so many calls went to each version, and none failed.
async fn report_calls(world: &World, child: &str, calls: u64) {
    let mut summary = summary(STAGE, 1);
    summary["strata"] = json!([{"split": 5, "interval": 7, "f1_calls": calls, "f1_errors": 0, "f2_calls": calls, "f2_errors": 0}]);
    let body = json!({"id": child, "release_id": "taken", "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

/// Two children that have reported of a stage, and the next look is to come.
async fn reported() -> (World, [String; 2]) {
    let world = World::start().await;
    let children = [world.child().await, world.child().await];
    registered(&world, 2).await;
    let slowly = judged("broken", &REPORTED.replace("interval: 1s", "interval: 3s"));
    world.submit(&slowly).await.ok();
    for child in &children {
        assert_eq!(world.poll(child).await.1, "broken");
        world.fetch(child, "broken").await.ok();
        report(&world, child, "broken", 1).await;
    }
    (world, children)
}

#[tokio::test]
async fn a_report_that_can_not_be_read_pauses_the_release() {
    let _time = VirtualTime::begin();
    let (world, children) = reported().await;
    world.sql("UPDATE stage_results SET summary = '{\"f1_calls\": -1}' WHERE child_key = 1").await;
    let shown = in_state(&world, "broken", "Paused").await;
    assert_eq!(shown["analyses"][0]["verdict"], "error", "{shown:#}");
    let said = "there was no answer: what children reported is in the store, and can't be read: stage_results, key \
                (0, 1, 1, 0), summary; see the manager's log";
    assert_eq!(found(&shown), said);
    assert!(world.unreadable("stage_results").await >= 1);
    assert_eq!(world.unreadable("analysis_runs").await, 0);
    // Whoever looks at the child sees that something is there.
    let shown = world.get("/api/v1/releases/broken/children").await.ok().json();
    let of = |child: &str| {
        let items = shown["items"].as_array().unwrap();
        items.iter().find(|item| item["child"] == child).unwrap()["results"].clone()
    };
    assert_eq!(of(&children[0])[0]["summary"]["f2_err_rate"], 0.0, "{shown:#}");
    assert_eq!(of(&children[1])[0]["summary"], json!({"f1_calls": -1}));
    assert!(children.iter().all(|child| of(child)[0]["status"] == "InProgress"), "{shown:#}");
    world.stop().await;
}

#[tokio::test]
async fn a_report_of_a_stage_that_the_strategy_does_not_have_pauses_the_release() {
    let _time = VirtualTime::begin();
    let (world, children) = reported().await;
    world.sql("UPDATE stage_results SET stage = 9 WHERE child_key = 1").await;
    let shown = in_state(&world, "broken", "Paused").await;
    assert_eq!(shown["analyses"][0]["verdict"], "error", "{shown:#}");
    let said = "there was no answer: what children reported is in the store, and can't be read: stage_results, key \
                (0, 1, 1, 9), stage; see the manager's log";
    assert_eq!(found(&shown), said);
    let counted = world.unreadable("stage_results").await;
    assert!(counted >= 1);
    let shown = world.get("/api/v1/releases/broken/children").await.ok().json();
    let of_other =
        shown["items"].as_array().unwrap().iter().find(|item| item["child"] == children[1]).unwrap();
    assert_eq!(
        of_other["results"][0]["status"], "InProgress",
        "somebody sees that something is there: {shown:#}"
    );
    assert!(world.unreadable("stage_results").await > counted, "and it is counted");
    world.stop().await;
}

#[tokio::test]
async fn invalid_stage_in_earlier_report_is_reported_not_ignored() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 1, |config| config.kind = FleetKind::Modern);
    registered(&world, 1).await;
    world.submit(&strategy("one")).await.ok();
    in_state(&world, "one", "Done").await;
    world.sql("UPDATE stage_results SET stage = 9 WHERE release_key = 0 AND stage = 0").await;
    let block = "duration: 1s, interval: 1s, consecutiveErrorLimit: 0, metrics: [{name: times, provider: children, metric: responseTime, \
        strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}]";
    world.submit(&judged("two", block)).await.ok();
    let shown = in_state(&world, "two", "Paused").await;
    let said =
        "what children did before is in the store, and can't be read: stage_results, key (0, 0, 1, 9), stage";
    assert!(found(&shown).contains(said), "{shown:#}");
    assert!(world.unreadable("stage_results").await >= 1);
    agents.end().await;
    world.stop().await;
}

/// A look counts what earlier looks did not take. Where that can't be said, it counts nothing a second time.
#[tokio::test]
async fn what_earlier_looks_took_and_can_not_be_made_out_pauses_the_release() {
    let _time = VirtualTime::begin();
    for broken in [
        "UPDATE analysis_runs SET detail = json_set(detail, '$.metrics[0].strata[0].baseline', json('{\"values\":[1.5]}'))",
        "UPDATE analysis_runs SET detail = json_set(detail, '$.metrics[0].parts[#]', json_extract(detail, '$.metrics[0].parts[0]'))",
        "UPDATE analysis_runs SET detail = json_set(detail, '$.metrics[0].parts[0].stage', 9)",
        "UPDATE analysis_runs SET detail = json_set(json_remove(detail, '$.metrics[0].parts'), '$.metrics[0].strata[0].stage', 'x')",
    ] {
        let world = World::start().await;
        let child = world.child().await;
        registered(&world, 1).await;
        world.submit(&judged("taken", &REPORTED.replace("responseTime", "errorRate"))).await.ok();
        assert_eq!(world.poll(&child).await.1, "taken");
        world.fetch(&child, "taken").await.ok();
        for calls in [1_000, 2_000] {
            report_calls(&world, &child, calls).await;
            let is_counted = |shown: &Value| {
                let evidence = &shown["analyses"][0]["metrics"][0]["evidence"];
                evidence["baseline"]["count"].as_u64() == Some(calls)
            };
            look_until(&world, "taken", is_counted).await;
        }
        world.sql(broken).await;
        let world = world.restart().await;
        report_calls(&world, &child, 3_000).await;
        let shown = in_state(&world, "taken", "Paused").await;
        assert_eq!(shown["analyses"][0]["verdict"], "error", "{broken}: {shown:#}");
        let said = "there was no answer: what earlier looks took is in the store, and can't be read: analysis_runs, key \
                    (0, 0), detail; see the manager's log";
        assert_eq!(found(&shown), said, "{broken}");
        assert!(world.unreadable("analysis_runs").await >= 1, "{broken}");
        world.stop().await;
    }
}

#[tokio::test]
async fn unreadable_previous_release_is_reported_not_treated_as_missing() {
    let _time = VirtualTime::begin();
    for (table, broken, said) in [
        (
            "precedents",
            "UPDATE precedents SET times = '[{\"stage\": 7}]'",
            "the times of earlier releases is in the store, and can't be read: precedents, key (\"sieve\", 0), times",
        ),
        (
            "releases",
            "UPDATE releases SET strategy = 'id: [' WHERE id = 'one'",
            "the earlier release is in the store, and can't be read: releases, key 0, strategy",
        ),
        (
            "stage_results",
            "UPDATE stage_results SET summary = 'cut' WHERE release_key = 0 AND stage = 0",
            "what children reported is in the store, and can't be read: stage_results, key (0, 0, 1, 0), summary",
        ),
        (
            "stage_results",
            "UPDATE stage_results SET stage = 9 WHERE release_key = 0 AND stage = 0",
            "what children reported is in the store, and can't be read: stage_results, key (0, 0, 1, 9), stage",
        ),
    ] {
        let world = World::start().await;
        let agents = Agents::below(&world, 1, |_| ());
        registered(&world, 1).await;
        world.submit(&strategy("one")).await.ok();
        in_state(&world, "one", "Done").await;
        world.sql(broken).await;
        let block = "duration: 1s, interval: 1s, consecutiveErrorLimit: 0, metrics: [{name: times, provider: children, metric: errorRate, \
            strategy: PREVIOUS, runVariation: 1%, tolerance: 5%}]";
        world.submit(&judged("two", block)).await.ok();
        let shown = in_state(&world, "two", "Paused").await;
        assert_eq!(shown["analyses"][0]["verdict"], "error", "{shown:#}");
        assert!(found(&shown).contains(said), "{table}: {shown:#}");
        assert!(world.unreadable(table).await >= 1, "{table}");
        agents.end().await;
        world.stop().await;
    }
}

#[tokio::test]
async fn a_plan_says_nothing_of_an_earlier_release_of_which_something_can_not_be_read() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 1, |config| config.kind = FleetKind::Modern);
    registered(&world, 1).await;
    world.submit(&strategy("one")).await.ok();
    in_state(&world, "one", "Done").await;
    let block = "duration: 60s, interval: 10s, metrics: [{name: times, provider: children, metric: errorRate, \
        strategy: CANARY_BASELINE, tolerance: 5%}]";
    let plan = async || {
        let request = world.request("POST", "/api/v1/plan").header("content-type", "application/yaml");
        world.send(request.body(judged("two", block))).await.ok().json()["takes"][0].clone()
    };
    let known = plan().await;
    assert!(known["basis"].to_string().contains("one"), "{known:#}");
    for broken in [
        "UPDATE stage_results SET stage = 9 WHERE stage = 0",
        "UPDATE stage_results SET summary = '[]', stage = 0 WHERE stage = 9",
    ] {
        let before = world.unreadable("stage_results").await;
        world.sql(broken).await;
        let unknown = plan().await;
        assert!(!unknown["basis"].to_string().contains("one"), "{broken}: {unknown:#}");
        assert!(world.unreadable("stage_results").await > before, "{broken}");
    }
    world.sql("INSERT INTO analysis_runs (release_key, block, detail) VALUES (0, 9, '{}')").await;
    plan().await;
    assert_eq!(world.unreadable("analysis_runs").await, 1, "the earlier release has no tenth analysis");
    agents.end().await;
    world.stop().await;
}
