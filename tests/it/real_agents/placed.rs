//! Workflows on the machines of agents.

use serde_json::{Value, json};

use super::{site::Site, wait::wait_until};
use crate::world::client;

const SAMPLE: &str = include_str!("../../placement/workflow.json");

/// An agent says what its machine has, as far as it isn't set otherwise, and functions are planned on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_machine_of_an_agent_that_offers_it_is_a_node() {
    let site = Site::with(&["placement.function_types=RUST_WASM=binary, python=binary".to_owned()]).await;
    let settings =
        ["node.placements=true", "node.resources=file-log", "node.tpm=true", "agent.labels=tier=edge"];
    let _offers = site.node("offers", &settings).await;
    let _keeps = site.node("keeps", &["agent.labels=tier=edge"]).await;
    let mut workflow: Value = serde_json::from_str(SAMPLE).unwrap();
    workflow["functions"][0]["annotations"]["tpm"] = json!("required");
    workflow["functions"][0]["annotations"]["memory_mib"] = json!("1");
    let url = format!("{}/api/v1/workflows/plan", site.manager.url());
    let http = client().build().unwrap();
    let plan =
        async || -> Value { http.post(&url).json(&workflow).send().await.unwrap().json().await.unwrap() };
    wait_until("the node has polled", async || plan().await["nodes"] == 1).await;
    let planned = plan().await;
    let parts = [&planned["functions"][0], &planned["functions"][1], &planned["resources"][0]];
    assert!(parts.iter().all(|part| part["node"]["name"] == "offers"), "{planned}");
}
