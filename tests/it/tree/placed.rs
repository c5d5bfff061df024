//! What a manager places on a manager below it. The nodes are played.

use std::time::Duration;

use serde_json::{Value, json};

use super::levels::{parent, url};
use crate::{deadline::until, world::World};

/// Nobody is silent for so long within a test.
fn patient(options: &mut choirmaster::app::Options) {
    options.rules.placement.keep_alive = Duration::from_mins(10);
}

/// A manager, one below it, and a workflow of the former that runs on a node of the latter: that node's id, and what it
/// says that it runs.
async fn placed_below() -> (World, World, String, Vec<Value>) {
    let root = World::with(patient).await;
    let above = parent(url(&root));
    let middle = World::with(|options| {
        patient(options);
        options.parent = Some(above);
    })
    .await;
    let node = middle.node("low", &json!({"node": {"resources": ["file-log"]}})).await;
    let workflow = json!({"functions": [], "resources": [{"name": "log", "class_type": "file-log", "configurations": {"filename": "a.log"}}]});
    let plan = async || root.post("/api/v1/workflows/plan", &workflow).await.ok().json();
    until("it is a node", plan, |plan| plan["nodes"] == 1).await;
    let started = root.post("/api/v1/workflows?name=w", &workflow).await;
    assert_eq!(started.status, 201, "{}", started.text());
    middle.until("/api/v1/workflows", |all| all["items"].as_array().unwrap().len() == 1).await;
    let runs = middle.run_placed(&node).await;
    root.until("/api/v1/workflows/w", |shown| shown["workflow"]["state"] == "running").await;
    (root, middle, node, runs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_parent_has_placed_ends_once_it_is_the_parent_no_more() {
    let (root, middle, node, _) = placed_below().await;
    let middle = middle.restart_with(patient).await;
    middle.until("/api/v1/workflows", |all| all["items"][0]["state"] == "stopping").await;
    middle.run_placed(&node).await;
    assert_eq!(middle.get("/api/v1/workflows").await.ok().json()["items"], json!([]));
    middle.stop().await;
    root.stop().await;
}

/// Another node below may take it over, so the parent hears of trouble that stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_below_that_passes_is_none_above() {
    let (root, middle, node, runs) = placed_below().await;
    let instance = &runs[0]["id"];
    let failed = json!({"id": node, "instances": [{"id": instance, "phase": "failed", "why": "no room"}]});
    middle.post("/placements", &failed).await.ok();
    root.until("/api/v1/workflows/w", |shown| shown["workflow"]["state"] == "starting").await;
    // There is no other node below, and its own starts it once more.
    middle.run_placed(&node).await;
    root.until("/api/v1/workflows/w", |shown| shown["workflow"]["state"] == "running").await;
    let trail = root.get("/api/v1/audit?limit=1000").await.ok().text();
    assert!(!trail.contains("instance_failed"), "{trail}");
    middle.stop().await;
    root.stop().await;
}

/// Whoever sends is told where events are taken now, also where the instance that it hands them over from is to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_hear_where_a_target_takes_events_for_as_long_as_the_workflow_runs() {
    let world = World::with(patient).await;
    let code = json!({"id": "f", "function_type": "python", "version": "1", "code": "fns/messages/shout"});
    let label = |of: &str| json!({"label_match_all": of});
    let workflow = json!({
        "functions": [
            {"name": "from", "class_specification": code, "output_mapping": {"out": "to"}, "annotations": label("from")},
            {"name": "to", "class_specification": code, "annotations": label("to")},
        ],
    });
    let capabilities = |label: &str, port: u16| {
        let node = json!({"events": format!("http://127.0.0.1:{port}")});
        json!({"runtimes": ["python"], "labels": {label: ""}, "node": node})
    };
    let first = world.node("first", &capabilities("from", 1)).await;
    let second = world.node("second", &capabilities("from", 2)).await;
    let target = world.node("target", &capabilities("to", 3)).await;
    let started = world.post("/api/v1/workflows?name=w", &workflow).await;
    assert_eq!(started.status, 201, "{}", started.text());
    let told = async |node: &str, query: &str, state: &Value, runs: &[Value]| {
        let said = json!({"id": node, "state": state, "instances": runs});
        world.post(&format!("/placements{query}"), &said).await.ok().json()
    };
    let at =
        if told(&first, "", &Value::Null, &[]).await["instances"] == json!([]) { &second } else { &first };
    let before = told(at, "", &Value::Null, &[]).await;
    let target_of = |told: &Value| told["instances"][0]["outputs"]["out"]["url"].clone();
    assert_eq!(target_of(&before), "http://127.0.0.1:3");
    // A call that waits is answered.
    let (now, _) = tokio::join!(told(at, "?wait=30s", &before["state"], &[]), async {
        let mut poll = json!({"id": target, "name": "target", "kind": "agent"});
        poll["capabilities"] = capabilities("to", 4);
        world.post("/poll", &poll).await.ok()
    });
    assert_eq!(target_of(&now), "http://127.0.0.1:4");
    let to = if at == &first { &second } else { &first };
    world.run_placed(&target).await;
    let runs = world.run_placed(at).await;
    let moved = world.post("/api/v1/workflows/w/move", &json!({"function": "from", "nodes": [to]})).await;
    assert_eq!(moved.status, 200, "{}", moved.text());
    // It begins by itself, so the one that is ready waits for the end of the other.
    world.run_placed(to).await;
    let ends = told(at, "", &Value::Null, &runs).await;
    assert_eq!(
        (&ends["instances"][0]["state"], target_of(&ends)),
        (&json!("end"), json!("http://127.0.0.1:4"))
    );
    world.call("DELETE", "/api/v1/workflows/w").await.ok();
    let ends = told(at, "", &Value::Null, &runs).await;
    assert_eq!(ends["instances"][0]["outputs"], Value::Null, "nobody is the target any more");
    world.stop().await;
}
