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

#[tokio::test]
async fn a_child_that_fails_its_undo_is_named_and_rests() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    assert_eq!(world.poll(&child).await.1, "a");
    world.fetch(&child, "a").await.ok();
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
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    assert_eq!(world.poll(&child).await.1, "a");
    world.fetch(&child, "a").await.ok();
    fails(&world, &child, "a", STAGE).await;
    assert_eq!(world.poll(&child).await.1, "");
    let release = world.until("/api/v1/releases/a", |release| release["state"] == "DoneWithFailures").await;
    let why = release["why"]["text"].as_str().unwrap();
    assert!(why.contains("it has no index.js"), "{release}");
    world.stop().await;
}
