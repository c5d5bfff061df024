//! A stage that is judged by what routers tell.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Agents, events, in_state, judged, look_until, registered};
use crate::{virtual_time::VirtualTime, world::World};

const ERRORS: &str = "duration: 3s, interval: 1s, consecutiveErrorLimit: 0, metrics: [{name: errors, provider: router, \
    query: 'error_rate checkout {{ .VariantArgs.variation }}', canaryArgs: {variation: B}, expected: {max: 0.01}}]";

async fn router(world: &World) -> String {
    let poll = |id: &str| json!({"id": id, "kind": "agent", "name": "edge-1", "capabilities": {"runtimes": [], "leads": "whole", "routers": ["nginx"]}});
    let answer = world.post("/poll", &poll("")).await.ok().json();
    let id = answer["id"].as_str().unwrap().to_owned();
    world.post("/poll", &poll(&id)).await.ok();
    id
}

/// Shares have come into force, and the new variation had so many errors.
async fn tell(world: &World, id: &str, generation: u64, errors: u64) {
    let variation = |name: &str, wanted: u16, errors: u64| {
        json!({"name": name, "wanted": wanted, "seen": wanted, "targets": {"healthy": 1, "total": 1}, "calls": 1000,
            "errors": errors})
    };
    let target = |name: &str| json!({"name": name, "targets": ["127.0.0.1:9101"]});
    let service = json!({
        "name": "checkout", "epoch": 1, "generation": generation, "measured_ms": 1,
        "variations": [variation("A", 9000, 1), variation("B", 1000, errors)],
        "led": {"variations": [target("A"), target("B")]},
    });
    let body = json!({"id": id, "router": {"kind": "nginx", "phase": "in_force", "reached": true}, "services": [service]});
    world.post("/traffic", &body).await.ok();
}

/// The stage of `judged` has begun, and so has its analysis.
async fn begun(world: &World, release: &str) {
    look_until(world, release, |shown| shown["analyses"][0]["state"] == "open").await;
}

async fn judged_with(errors: u64, state: &str) -> (World, Value) {
    let world = World::start().await;
    let id = router(&world).await;
    tell(&world, &id, 1, 0).await;
    let agents = Agents::below(&world, 2, |_| ());
    registered(&world, 3).await;
    world.submit(&judged("r", ERRORS)).await.ok();
    begun(&world, "r").await;
    // At each look there are newer counts.
    let telling = async {
        let mut generation = 2;
        loop {
            tell(&world, &id, generation, errors).await;
            generation += 1;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let shown = tokio::select! {
        shown = in_state(&world, "r", state) => shown,
        () = telling => unreachable!("it goes on for ever"),
    };
    agents.end().await;
    (world, shown)
}

#[tokio::test]
async fn a_variation_with_errors_at_its_routers_is_rolled_back_with_the_evidence() {
    let _time = VirtualTime::begin();
    let (world, _) = judged_with(20, "RolledBack").await;
    let rolled_back = events(&world, "r", "release_rolled_back").await;
    insta::assert_snapshot!(rolled_back[0]["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: fail: errors: 0.02 is above 0.01; 1 of 1 measurements was outside, 0 are borne");
    world.stop().await;
}

#[tokio::test]
async fn a_variation_without_errors_at_its_routers_passes() {
    let _time = VirtualTime::begin();
    let (world, shown) = judged_with(2, "Done").await;
    assert_eq!(shown["analyses"][0]["verdict"], "pass");
    world.stop().await;
}
