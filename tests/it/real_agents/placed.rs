//! Workflows on the machines of agents.

use serde_json::{Value, json};

use super::{serving::Behaviour::Good, site::Site, wait::wait_until};
use crate::world::client;

const SAMPLE: &str = include_str!("../../placement/workflow.json");

/// An agent says what its machine has, as far as it isn't set otherwise, and functions are planned on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_machine_of_an_agent_that_offers_it_is_a_node() {
    let site = Site::with(&[
        "placement.function_types=RUST_WASM=binary, python=binary".to_owned(),
        "placement.keep_alive=1m".to_owned(),
    ])
    .await;
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

/// A workflow of functions that agents run as they stand in the manager's folder.
fn workflow(functions: &[(&str, &str, Value)]) -> Value {
    let function = |(name, code, annotations): &(&str, &str, Value)| {
        json!({
            "name": name, "annotations": annotations,
            "class_specification": {"id": name, "function_type": "program", "version": "1", "code": format!("fns/{code}")},
        })
    };
    json!({"functions": functions.iter().map(function).collect::<Vec<_>>()})
}

/// Functions run on the nodes that may run them, through kills of the manager and of an agent, until they are stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_run_where_they_are_placed_until_they_are_stopped_whoever_is_killed() {
    let mut site = Site::with(&["placement.keep_alive=20s".to_owned()]).await;
    let (one, other) = (site.version(Good), site.version(Good));
    let mut first = site.node("first", &["node.placements=true", "agent.labels=tier=edge"]).await;
    let second = site.node("second", &["node.placements=true"]).await;
    let url = format!("{}/api/v1/workflows", site.manager.url());
    let http = client().build().unwrap();
    let text = workflow(&[
        ("a", &one, json!({"label_match_all": "tier=edge"})),
        ("b", &other, json!({"label_match_all": "site=b"})),
    ]);
    wait_until("both nodes are known", async || {
        let plan = http.post(format!("{url}/plan")).json(&text).send().await.unwrap();
        plan.json::<Value>().await.unwrap()["nodes"] == 2
    })
    .await;
    let started = http.post(&url).query(&[("name", "w")]).json(&text).send().await.unwrap();
    assert_eq!(started.status(), 201, "{}", started.text().await.unwrap());
    let shown = async || -> Value {
        let Ok(answer) = http.get(format!("{url}/w")).send().await else { return Value::Null };
        answer.json().await.unwrap_or_default()
    };
    let phase = |shown: &Value, at: usize| shown["functions"][at]["instance"]["phase"].clone();
    wait_until("the first runs", async || phase(&shown().await, 0) == "running").await;
    let now = shown().await;
    assert_eq!(now["functions"][0]["instance"]["node"]["name"], "first", "{now}");
    assert_eq!(
        (&now["workflow"]["state"], &now["functions"][1]["instance"]),
        (&json!("waiting"), &Value::Null)
    );
    let calls = async |at: std::net::SocketAddr, name: &str| {
        let answer = http.get(format!("http://{at}/{name}/call/1")).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    };
    wait_until("callers reach it", async || calls(first.at, "w.a").await).await;
    assert!(!calls(second.at, "w.a").await);
    // A label that an operator gives makes the other one a node for what waits.
    let children = format!("{}/api/v1/children", site.manager.url());
    let list: Value = http.get(&children).send().await.unwrap().json().await.unwrap();
    let second_child = list["items"].as_array().unwrap().iter().find(|one| one["name"] == "second").unwrap();
    let label = format!("{children}/{}/labels/site", second_child["id"].as_str().unwrap());
    assert!(http.put(label).json(&json!({"value": "b"})).send().await.unwrap().status().is_success());
    wait_until("the second runs", async || phase(&shown().await, 1) == "running").await;
    wait_until("callers reach it", async || calls(second.at, "w.b").await).await;
    let before = shown().await;
    let instances = |shown: &Value| [0, 1].map(|at| shown["functions"][at]["instance"]["id"].clone());

    site.manager.kill();
    first.kill();
    site.manager.come_back().await;
    first.come_back();
    wait_until("all runs again", async || shown().await["workflow"]["state"] == "running").await;
    assert_eq!(instances(&shown().await), instances(&before));
    wait_until("callers reach it", async || calls(first.at, "w.a").await).await;
    assert_eq!((site.running(&one).len(), site.running(&other).len()), (1, 1), "one of each runs");

    let stopped = http.delete(format!("{url}/w")).send().await.unwrap();
    assert_eq!(stopped.status(), 202);
    wait_until("it is gone", async || http.get(format!("{url}/w")).send().await.unwrap().status() == 404)
        .await;
    wait_until("nothing of it runs", async || site.all_running().is_empty()).await;
    assert!(!calls(first.at, "w.a").await && !calls(second.at, "w.b").await);
}

/// The id, and the name of the node, of the only function of a workflow, where it runs and moves nowhere.
fn settled(shown: &Value) -> Option<(String, String)> {
    let function = &shown["functions"][0];
    let instance = &function["instance"];
    let is_settled = instance["phase"] == "running"
        && function["next"].is_null()
        && function["ending"].as_array().is_some_and(Vec::is_empty);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    is_settled.then(|| (text(&instance["id"]), text(&instance["node"]["name"])))
}

/// A function leaves a node that is silent or drained, and one that an operator moves it away from; one instance of it survives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_goes_on_elsewhere_when_its_node_is_silent_or_drained_or_somebody_moves_it() {
    let mut site = Site::with(&["placement.keep_alive=4s".to_owned()]).await;
    let version = site.version(Good);
    let nodes = [
        site.node("first", &["node.placements=true"]).await,
        site.node("second", &["node.placements=true"]).await,
    ];
    let url = format!("{}/api/v1/workflows", site.manager.url());
    let http = client().build().unwrap();
    let text = workflow(&[("f", &version, json!({}))]);
    wait_until("both nodes are known", async || {
        let plan = http.post(format!("{url}/plan")).json(&text).send().await.unwrap();
        plan.json::<Value>().await.unwrap()["nodes"] == 2
    })
    .await;
    let started = http.post(&url).query(&[("name", "w")]).json(&text).send().await.unwrap();
    assert_eq!(started.status(), 201, "{}", started.text().await.unwrap());
    let shown = async || -> Value {
        let Ok(answer) = http.get(format!("{url}/w")).send().await else { return Value::Null };
        answer.json().await.unwrap_or_default()
    };
    let until_other = async |than: &str| {
        wait_until("it runs elsewhere, and ended where it was", async || {
            settled(&shown().await).is_some_and(|(_, node)| node != than)
        })
        .await;
        settled(&shown().await).unwrap().1
    };
    let calls = async |at: std::net::SocketAddr| {
        let answer = http.get(format!("http://{at}/w.f/call/1")).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    };
    let place = |name: &str| usize::from(name == "second");
    let from = until_other("").await;
    // What its agent started runs on while that stands still.
    nodes[place(&from)].freeze();
    wait_until("another node runs it", async || {
        let now = shown().await;
        let instance = &now["functions"][0]["instance"];
        instance["phase"] == "running" && instance["node"]["name"] != json!(from)
    })
    .await;
    wait_until("callers reach it", async || calls(nodes[1 - place(&from)].at).await).await;
    assert_eq!(site.running(&version).len(), 2, "nobody has told the one that stands still");
    nodes[place(&from)].thaw();
    let to = until_other(&from).await;
    wait_until("one survives", async || site.running(&version).len() == 1).await;
    assert!(!calls(nodes[place(&from)].at).await);

    let children: Value = http
        .get(format!("{}/api/v1/children", site.manager.url()))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let id_of = |name: &str| {
        let child = children["items"].as_array().unwrap().iter().find(|child| child["name"] == json!(name));
        child.unwrap()["id"].as_str().unwrap().to_owned()
    };
    // Back, by hand.
    let body = json!({"function": "f", "nodes": [id_of(&from)]});
    let moved = http.post(format!("{url}/w/move")).json(&body).send().await.unwrap();
    assert_eq!(moved.status(), 200, "{}", moved.text().await.unwrap());
    let again = until_other(&to).await;
    assert_eq!(again, from);
    let drained = format!("{}/api/v1/children/{}/drain", site.manager.url(), id_of(&from));
    assert!(http.post(drained).json(&json!({})).send().await.unwrap().status().is_success());
    until_other(&from).await;
    wait_until("callers reach it", async || calls(nodes[place(&to)].at).await).await;
    wait_until("one survives", async || site.running(&version).len() == 1).await;
    let body = json!({"function": "f", "nodes": [id_of(&from)]});
    let refused = http.post(format!("{url}/w/move")).json(&body).send().await.unwrap();
    assert_eq!(refused.status(), 409);
    assert!(refused.text().await.unwrap().contains("cordon"));
}
