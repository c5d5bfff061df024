//! What managers alone say to each other: who is above whom, and that a release is paused.

use serde_json::json;

use super::levels::{Agents, below, ended, registered, url};
use crate::world::{AREA, STAGE, World, strategy};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_above_reaches_the_release_below_and_one_below_stays_below() {
    let root = World::start().await;
    let middle = below(&root).await;
    let child = middle.child().await;
    root.until("/api/v1/children", |children| children["items"][0]["kind"] == "rm").await;
    root.submit(&strategy("31")).await.ok();
    middle.until("/api/v1/releases/31", |shown| shown["state"] == "Running").await;
    middle.poll(&child).await;
    middle.fetch(&child, "31").await.ok();

    root.call("POST", "/api/v1/releases/31/pause").await.ok();
    let shown = middle.until("/api/v1/releases/31", |shown| shown["state"] == "Paused").await;
    assert_eq!(shown["reason"], "the manager above paused it");
    root.call("POST", "/api/v1/releases/31/resume").await.ok();
    middle.until("/api/v1/releases/31", |shown| shown["state"] == "Running").await;

    // Paused by both: each resumes its own.
    root.call("POST", "/api/v1/releases/31/pause").await.ok();
    middle.until("/api/v1/releases/31", |shown| shown["state"] == "Paused").await;
    middle.call("POST", "/api/v1/releases/31/pause").await.ok();
    root.call("POST", "/api/v1/releases/31/resume").await.ok();
    // The next signal has come through: what was paused here is still paused.
    root.call("POST", "/api/v1/releases/31/pause").await.ok();
    root.call("POST", "/api/v1/releases/31/resume").await.ok();
    let shown = middle.get("/api/v1/releases/31").await.ok().json();
    assert_eq!(shown["state"], "Paused");
    assert_ne!(shown["reason"], "the manager above paused it");
    middle.call("POST", "/api/v1/releases/31/resume").await.ok();
    middle.until("/api/v1/releases/31", |shown| shown["state"] == "Running").await;
    middle.report(&child, "31", STAGE, 5).await.ok();
    assert_eq!(ended(&root, "31").await, "DoneWithFailures");
    middle.stop().await;
    root.stop().await;
}

#[tokio::test]
async fn a_manager_is_told_who_is_above_it_and_an_agent_is_not() {
    let root = World::start().await;
    let area: serde_json::Value = serde_json::from_str(AREA).unwrap();
    let agent = json!({"id": "", "geographic_area": area, "number_of_children": 0});
    let answer = root.post("/poll", &agent).await.ok().json();
    assert_eq!(answer.as_object().unwrap().len(), 2, "{answer}");
    let manager =
        json!({"id": "", "geographic_area": area, "number_of_children": 3, "kind": "rm", "rm_ids": ["a"]});
    let answer = root.post("/poll", &manager).await.ok().json();
    let own = answer["rm_ids"][0].as_str().unwrap().to_owned();
    assert_eq!(answer["rm_ids"].as_array().unwrap().len(), 1, "{answer}");

    // The id is its own over a restart, and whoever has it is refused as a child.
    let root = root.restart().await;
    let cycle =
        json!({"id": "", "geographic_area": area, "number_of_children": 3, "kind": "rm", "rm_ids": [own]});
    let refused = root.post("/poll", &cycle).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(refused.text().trim_end().lines().count(), 1);
    assert_eq!(root.get("/api/v1/children").await.ok().json()["items"].as_array().unwrap().len(), 2);
    let many: Vec<String> = (0..65).map(|number| format!("rm-{number}")).collect();
    let deep =
        json!({"id": "", "geographic_area": area, "number_of_children": 3, "kind": "rm", "rm_ids": many});
    assert_eq!(root.post("/poll", &deep).await.status, 400);
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_gets_a_parent_below_itself_is_refused_and_its_children_go_on() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agents = Agents::below(&middle, false);
    registered(&root).await;
    let url = url(&middle);
    // The one at the top is now a child of the one below it.
    let settings = super::levels::parent(url);
    let address = root.manager.address;
    let root = root
        .restart_with(|options| {
            options.listen = address;
            options.parent = Some(settings);
        })
        .await;
    super::rough::look_until_metric(&root, "choirmaster_parent_up 0").await;
    root.submit(&strategy("32")).await.ok();
    assert_eq!(ended(&root, "32").await, "Done");
    assert_eq!(agents.end().await.totals.rolled_out, 6);
    middle.stop().await;
    root.stop().await;
}
