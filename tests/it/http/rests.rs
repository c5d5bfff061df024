//! A child that fails its undo is named with its reason, and is offered the next one later.

use serde_json::json;

use crate::world::{STAGE, World, strategy, summary};

const UNDO: &str = "choirmaster undo";

async fn fails(world: &World, child: &str, offer: &str, stage: &str) {
    let mut summary = summary(stage, 6);
    summary["why"] = json!({"cause": "unstarted", "text": "it has no index.js"});
    let body = json!({"id": child, "release_id": offer, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

/// How often the trail has this event of a child.
async fn told(world: &World, step: &str) -> usize {
    let trail = world.get("/api/v1/audit?release=a&limit=1000").await.ok().text();
    trail.matches(&format!("\"step\":\"{step}\"")).count()
}

/// A child that has release a in hand.
async fn begun() -> (World, String) {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    assert_eq!(world.poll(&child).await.1, "a");
    world.fetch(&child, "a").await.ok();
    (world, child)
}

#[tokio::test]
async fn a_child_that_fails_its_undo_is_named_and_rests() {
    let (world, child) = begun().await;
    world.post("/api/v1/releases/a/abort", &json!({})).await.ok();
    assert_eq!(world.offered(&child).await, "a.undo");
    world.fetch(&child, "a.undo").await.ok();
    fails(&world, &child, "a.undo", UNDO).await;
    for _ in 0..200 {
        assert_eq!(world.poll(&child).await.1, "");
    }
    assert_eq!((told(&world, "undo_offered").await, told(&world, "undo_failed").await), (0, 1));
    let release = world.get("/api/v1/releases/a").await.ok().json();
    let waits = release["waits_for"].as_str().unwrap();
    assert!(waits.contains(&child) && waits.contains("it failed once: it has no index.js"), "{waits}");
    let children = world.get("/api/v1/releases/a/children").await.ok().json();
    let waits = children["items"][0]["waits_for"].as_str().unwrap();
    assert!(waits.contains("a.undo.2 in ") && waits.contains("it has no index.js"), "{waits}");

    // A call that waits is answered when it is offered again.
    let area: serde_json::Value = serde_json::from_str(crate::world::AREA).unwrap();
    let body = json!({"id": child, "geographic_area": area, "number_of_children": 0});
    let answer = world.post("/poll?wait=60s", &body).await.ok().json();
    assert_eq!(answer["new_release"], "a.undo.2");
    world.fetch(&child, "a.undo.2").await.ok();
    world.report(&child, "a.undo.2", UNDO, 4).await.ok();
    world.until("/api/v1/releases/a", |release| release["state"] == "Aborted").await;
    world.stop().await;
}

#[tokio::test]
async fn a_child_that_could_start_nothing_has_nothing_to_take_back() {
    let (world, child) = begun().await;
    fails(&world, &child, "a", STAGE).await;
    assert_eq!(world.poll(&child).await.1, "");
    let release = world.until("/api/v1/releases/a", |release| release["state"] == "DoneWithFailures").await;
    let why = release["why"]["text"].as_str().unwrap();
    assert!(why.contains("it has no index.js"), "{release}");
    world.stop().await;
}

/// A poll of an agent that takes whole strategies; the offer that waits.
async fn poll_whole(world: &World, id: &str) -> (String, String) {
    let area: serde_json::Value = serde_json::from_str(crate::world::AREA).unwrap();
    let capabilities = json!({"leads": "whole", "features": [], "runtimes": ["nodejs"]});
    let body = json!({"id": id, "geographic_area": area, "number_of_children": 0, "kind": "agent",
        "capabilities": capabilities});
    let answer = world.post("/poll", &body).await.ok().json();
    let part = |name: &str| answer[name].as_str().unwrap().to_owned();
    (part("id"), part("new_release"))
}

/// An agent that takes whole strategies, to which release a was rolled out.
async fn rolled_out() -> (World, String) {
    let world = World::start().await;
    let (agent, _) = poll_whole(&world, "").await;
    poll_whole(&world, &agent).await;
    world.submit(&strategy("a")).await.ok();
    assert_eq!(poll_whole(&world, &agent).await.1, "a");
    world.fetch(&agent, "a").await.ok();
    world.report(&agent, "a", STAGE, 2).await.ok();
    world.end_stage(&agent, "a", STAGE).await.ok();
    world.report(&agent, "a", STAGE, 4).await.ok();
    (world, agent)
}

/// Its operator takes that back.
async fn takes_back(world: &World, agent: &str) {
    let mut summary = summary(STAGE, 5);
    summary["why"] = json!({"cause": "operator", "text": "taken back by an operator of the agent: slow"});
    let body = json!({"id": agent, "release_id": "a", "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

#[tokio::test]
async fn release_based_on_rolled_back_version_excludes_agent_with_reason() {
    let (world, agent) = rolled_out().await;
    takes_back(&world, &agent).await;
    // It is known after a restart, too.
    let world = world.restart().await;
    let from = |id: &str, base: &str, new: &str| {
        let text = strategy(id).replace("fns/sieve_base", "BASE").replace("fns/sieve_new", new);
        text.replace("BASE", base)
    };
    let onward = from("b", "fns/sieve_new", "fns/sieve_base");
    let plan = world.submit_to("/api/v1/plan", &onward).await.ok().json();
    let why = "serves another version of sieve than its base version fns/sieve_new";
    assert_eq!(plan["excluded"][0]["reason"], why, "{plan}");
    let submitted = world.submit(&onward).await.ok().json();
    let excluded = json!({"serves another version of a function than the base version": 1});
    assert_eq!(submitted["excluded"], excluded, "{submitted}");
    let release = world.until("/api/v1/releases/b", |release| release["state"] == "NoParticipants").await;
    assert_eq!(release["excluded"], excluded, "{release}");
    assert_eq!(poll_whole(&world, &agent).await.1, "");
    world.submit(&from("c", "fns/sieve_base", "fns/sieve_new")).await.ok();
    assert_eq!(poll_whole(&world, &agent).await.1, "c");
    world.stop().await;
}

#[tokio::test]
async fn what_an_operator_takes_back_at_an_agent_is_shown_audited_and_counted() {
    let (world, agent) = rolled_out().await;
    let deployed = async || world.get("/api/v1/deployments").await.ok().json()["items"][0]["variant"].clone();
    assert_eq!(deployed().await, "new");
    // By now the release has left memory.
    for _ in 0..2 {
        takes_back(&world, &agent).await;
    }
    assert_eq!(deployed().await, "base");
    assert_eq!(told(&world, "replaced").await, 1);
    let trail = world.get("/api/v1/audit?release=a&limit=1000").await.ok().text();
    assert!(trail.contains("taken back by an operator of the agent: slow"), "{trail}");
    let release = world.get("/api/v1/releases/a").await.ok().json();
    let counts = &release["counts"];
    assert_eq!((&counts["undone"], &counts["succeeded"]), (&json!(1), &json!(0)), "{release}");
    let children = world.get("/api/v1/releases/a/children").await.ok().json();
    assert_eq!(children["items"][0]["outcome"], "undone", "{children}");
    world.stop().await;
}
