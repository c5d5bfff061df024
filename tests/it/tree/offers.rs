//! What a manager hands to managers below it, over three levels: a root, middles, lower ones and agents.

use serde_json::json;

use super::levels::{AGENTS, Agents, below, ended, registered};
use crate::world::{STAGE, World, strategy};

/// Every agent runs this version at the end.
fn all_run(agents: &simulated_children::FleetReport, version: &str) {
    for agent in &agents.agents {
        let live = format!("{:?}", agent.live);
        assert!(live.contains(version), "{live}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_barrier_holds_over_two_managers_and_one_signal_opens_it_at_the_leaves() {
    let root = World::start().await;
    let middle = below(&root).await;
    let lower = below(&middle).await;
    let agents = Agents::below(&lower, false);
    registered(&middle).await;
    registered(&root).await;
    let led = strategy("one") + "rollout: {order: global_incremental, approval: before_rollout}\n";
    root.submit(&led).await.ok();
    root.until("/api/v1/releases/one", |shown| shown["state"] == "AwaitingApproval").await;
    let shown = lower.get("/api/v1/releases/one").await.ok().json();
    assert_eq!(shown["state"], "Running", "{shown:#}");
    root.call("POST", "/api/v1/releases/one/approve").await.ok();
    for world in [&root, &middle, &lower] {
        assert_eq!(ended(world, "one").await, "Done");
    }
    let report = agents.end().await;
    assert_eq!(report.totals.rolled_out, AGENTS);
    all_run(&report, "New");
    for world in [lower, middle, root] {
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_waves_of_the_root_are_waves_of_one_release_two_levels_below() {
    let root = World::start().await;
    let middle = below(&root).await;
    let lower = below(&middle).await;
    let agents = Agents::below(&lower, false);
    registered(&middle).await;
    registered(&root).await;
    root.submit(&(strategy("two") + "rollout: {order: waves, waves: [1, 50%, 100%]}\n")).await.ok();
    assert_eq!(ended(&root, "two").await, "Done");
    for world in [&middle, &lower] {
        assert_eq!(ended(world, "two").await, "Done");
        let releases = world.get("/api/v1/releases").await.ok().json();
        assert_eq!(releases["items"].as_array().unwrap().len(), 1, "{releases:#}");
        // What is read from the store is as complete as what was in memory, though no developer wrote the text.
        let shown = world.get("/api/v1/releases/two").await.ok().json();
        assert_eq!(
            (&shown["name"], &shown["stages"][0]["name"]),
            (&json!("Canary of the sieve, 5 percent"), &json!(STAGE))
        );
    }
    let report = agents.end().await;
    assert_eq!(report.totals.rolled_out, AGENTS);
    for world in [lower, middle, root] {
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_in_the_second_wave_takes_back_what_was_over_in_the_first() {
    let root = World::start().await;
    let good = below(&root).await;
    let lower = below(&good).await;
    let good_agents = Agents::below(&lower, false);
    registered(&good).await;
    registered(&root).await;
    let bad = below(&root).await;
    let bad_agents = Agents::below(&bad, true);
    let both = |children: &serde_json::Value| {
        let children = children["items"].as_array().unwrap();
        children.iter().filter(|child| child["agents"] == AGENTS).count() == 2
    };
    root.until("/api/v1/children", both).await;
    root.submit(&(strategy("three") + "rollout: {order: waves, waves: [50%, 100%]}\n")).await.ok();
    assert_eq!(ended(&root, "three").await, "RolledBack");
    for world in [&good, &lower, &bad] {
        assert_eq!(ended(world, "three").await, "RolledBack");
    }
    let shown = root.get("/api/v1/releases/three").await.ok().json();
    assert_eq!(shown["unconfirmed"].as_u64().unwrap_or_default(), 0, "{shown:#}");
    all_run(&good_agents.end().await, "Base");
    all_run(&bad_agents.end().await, "Base");
    for world in [lower, good, bad, root] {
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_counted_by_agents_over_two_levels_and_named_at_the_root() {
    let root = World::start().await;
    let middle = below(&root).await;
    let lower = below(&middle).await;
    let agents = Agents::below(&lower, true);
    registered(&middle).await;
    registered(&root).await;
    let block = "rollout: {order: parallel, max_failed: 5, on_failure: pause}\n";
    root.submit(&(strategy("four") + block)).await.ok();
    let is_paused = |shown: &serde_json::Value| shown["state"] == "Paused";
    let shown = root.until("/api/v1/releases/four", is_paused).await;
    let text = shown.to_string();
    assert!(text.contains("6 failed, max_failed is 5"), "{shown:#}");
    root.call("POST", "/api/v1/releases/four/abort").await.ok();
    assert_eq!(ended(&root, "four").await, "Aborted");
    all_run(&agents.end().await, "Base");
    for world in [lower, middle, root] {
        world.stop().await;
    }
}
