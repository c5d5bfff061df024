//! A stage that fails below a manager keeps its shares until the root decides.

use std::path::Path;

use serde_json::{Value, json};

use super::levels::{below, ended, manager_of};
use crate::{
    cli::registry::said,
    deadline::until,
    world::{AREA, STAGE, World, summary},
};

/// What an agent that leads the whole release says of the stage: it has failed, and keeps its shares or went on from it.
fn failed(agent: &str, status: u8) -> Value {
    let mut summary = summary(STAGE, status);
    summary["f2_err_rate"] = json!(0.3);
    summary["why"] = json!({"cause": "kept", "text": "errorRate is 0.3"});
    json!({"id": agent, "release_id": "kept", "stage_summaries": [summary], "next_stage": "rollout"})
}

async fn polls(manager: &World, agent: &str) -> (String, String) {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body = json!({"id": agent, "geographic_area": area, "number_of_children": 0, "kind": "agent",
        "capabilities": {"leads": "whole"}});
    let answer = manager.post("/poll", &body).await.ok().json();
    (answer["id"].as_str().unwrap().to_owned(), answer["new_release"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_fails_below_a_manager_keeps_its_shares_until_the_root_goes_on() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agent = polls(&middle, "").await.0;
    polls(&middle, &agent).await;
    manager_of(&root, 1).await;
    root.submit(&(crate::world::strategy("kept") + "rollout: {on_failure: pause}\n")).await.ok();
    until("the offer", async || polls(&middle, &agent).await.1, |offer| offer == "kept").await;
    let offer = middle.fetch(&agent, "kept").await.ok().text();
    assert!(offer.contains("keeps_failed: true"), "{offer}");

    middle.post("/result", &failed(&agent, 2)).await.ok();
    let paused = root.until("/api/v1/releases/kept", |shown| shown["state"] == "Paused").await;
    let why = format!(
        "{agent} failed in stage {STAGE} with fns/sieve_new (errorRate is 0.3): it keeps its shares until somebody decides"
    );
    assert!(paused["reason"].as_str().unwrap().ends_with(&why), "{paused:#}");
    assert_eq!(paused["stages"][0]["failed"], true, "{paused:#}");
    let shown = said(&root, Path::new("."), &["release", "show", "kept"]).await;
    assert!(shown.lines().any(|line| line.starts_with(STAGE) && line.ends_with(", failed")), "{shown}");
    middle.until("/api/v1/releases/kept", |shown| shown["state"] == "Paused").await;
    // Nobody below decides.
    middle.call("POST", "/api/v1/releases/kept/resume").await;
    let asks = async || middle.end_stage(&agent, "kept", STAGE).await.ok().json();
    assert_eq!(asks().await["end_stage"], false);

    root.call("POST", "/api/v1/releases/kept/resume").await.ok();
    let told = until("the decision", asks, |answer| answer["end_stage"] == true).await;
    assert_eq!(told.get("then").unwrap_or(&Value::Null), &Value::Null, "it goes on");
    middle.post("/result", &failed(&agent, 5)).await.ok();
    assert_eq!(ended(&root, "kept").await, "Done");
    let over = middle.get("/api/v1/releases/kept").await.ok().json();
    assert_eq!((&over["state"], &over["stages"][0]["failed"]), (&json!("Done"), &json!(true)), "{over:#}");
    middle.stop().await;
    root.stop().await;
}
