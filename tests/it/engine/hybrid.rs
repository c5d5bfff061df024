//! A release of functions and services at a manager that is started anew before each call.

use std::path::Path;

use serde_json::{Value, json};

use super::durable::{AREA, get, post, start, submit, summary};

const STRATEGY: &str = r#"id: h
name: checkout
functions:
  - name: sieve
    base_version: {path: fns/sieve_base, env: nodejs}
    new_version: {path: fns/sieve_new, env: nodejs}
services:
  - name: checkout
    ports: [{port: 8080}]
    variations: [{name: A, targets: ["127.0.0.1:9101"]}, {name: B, targets: ["127.0.0.1:9111"]}]
rollout: {on_failure: rollback}
stages:
  - name: Canary
    type: A/B
    func_name: sieve
    variants: [{name: base_version, trafficPercentage: 90}, {name: new_version, trafficPercentage: 10}]
    metrics_conditions: [{name: errorRate, threshold: "<0.5"}]
    end_action: {onSuccess: little}
  - name: little
    type: Traffic
    shares: {A: 90, B: 10}
    metrics_conditions: [{name: errorRate, threshold: "<0.5"}]
    end_action: {onSuccess: rollout}
"#;

/// A call to a manager that was not there before it, and is gone after it.
async fn call(folder: &Path, path: &str, body: Option<Value>) -> (u16, String) {
    let manager = start(folder).await;
    let answer = match body {
        Some(body) => post(&manager, path, body).await,
        None => get(&manager, path).await,
    };
    manager.stop().await.unwrap();
    answer
}

async fn poll(folder: &Path, id: &str, is_router: bool) -> (String, String) {
    let capabilities = if is_router {
        json!({"runtimes": [], "leads": "whole", "routers": ["nginx"]})
    } else {
        json!({"runtimes": ["nodejs"], "leads": "whole"})
    };
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body =
        json!({"id": id, "geographic_area": area, "number_of_children": 0, "capabilities": capabilities});
    let (status, text) = call(folder, "/poll", Some(body)).await;
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    (answer["id"].as_str().unwrap().to_owned(), answer["new_release"].as_str().unwrap_or_default().to_owned())
}

async fn report(folder: &Path, child: &str, offer: &str, stage: &str, status: u8) {
    let body = json!({"id": child, "release_id": offer, "stage_summaries": [summary(stage, status)], "next_stage": ""});
    assert_eq!(call(folder, "/result", Some(body)).await, (200, String::new()), "{child}: {stage}");
}

async fn fetch(folder: &Path, child: &str, offer: &str) -> String {
    let (status, text) = call(folder, &format!("/release?childID={child}&releaseID={offer}"), None).await;
    assert_eq!(status, 200, "{text}");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_it_is_started_anew_routers_come_after_the_agents_and_go_back_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (router, _) = poll(folder, "", true).await;
    let (agent, _) = poll(folder, "", false).await;
    poll(folder, &router, true).await;
    poll(folder, &agent, false).await;
    let manager = start(folder).await;
    submit(&manager, STRATEGY).await;
    manager.stop().await.unwrap();
    assert_eq!(poll(folder, &router, true).await.1, "");
    assert_eq!(poll(folder, &agent, false).await.1, "h");
    let offer = fetch(folder, &agent, "h").await;
    assert!(offer.contains("Canary") && !offer.contains("little") && !offer.contains("services:"), "{offer}");
    for status in [2, 4] {
        assert_eq!(poll(folder, &router, true).await.1, "", "before {status}");
        report(folder, &agent, "h", "Canary", status).await;
    }
    assert_eq!(poll(folder, &router, true).await.1, "h");
    let offer = fetch(folder, &router, "h").await;
    assert!(
        offer.contains("little") && !offer.contains("Canary") && !offer.contains("functions:"),
        "{offer}"
    );
    assert_eq!(call(folder, "/api/v1/releases/h/abort", Some(json!({}))).await.0, 200);
    // It is owed, and not told.
    assert_eq!(poll(folder, &agent, false).await.1, "");
    assert_eq!(poll(folder, &router, true).await.1, "h.undo");
    assert_eq!(poll(folder, &agent, false).await.1, "");
    fetch(folder, &router, "h.undo").await;
    assert_eq!(poll(folder, &agent, false).await.1, "");
    report(folder, &router, "h.undo", language::render::UNDO_STAGE, 4).await;
    assert_eq!(poll(folder, &agent, false).await.1, "h.undo");
    fetch(folder, &agent, "h.undo").await;
    report(folder, &agent, "h.undo", language::render::UNDO_STAGE, 4).await;
    let (_, release) = call(folder, "/api/v1/releases/h", None).await;
    assert!(release.contains("\"Aborted\""), "{release}");
}
