//! Workflows over a tree: a manager runs what only nodes below it may run.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{
    manager::Manager,
    passed_on::{copied_sample, numbers},
    site::Site,
    wait::wait_until,
};
use crate::world::client;

/// A part of the chain is placed on a manager, which places it on its own nodes. That manager is killed, a node of it is drained, and
/// no event is lost or doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_below_runs_what_only_its_nodes_may_run() {
    let keep_alive = "placement.keep_alive=20s".to_owned();
    let site = Site::with(std::slice::from_ref(&keep_alive)).await;
    let set = [keep_alive, format!("parent.url={}", site.manager.url()), "parent.poll=200ms".to_owned()];
    let mut below = Manager::start(&site.folder().join("below"), &site.functions(), &set).await;
    let logs = site.folder().join("files");
    let logs_at = format!("node.logs={}", logs.display());
    let _top = site.node("top", &["node.placements=true", "agent.labels=site=top"]).await;
    let _low = [
        site.node_below(&below, "low", &["node.placements=true", "agent.labels=site=low"]).await,
        site.node_below(
            &below,
            "deep",
            &["node.placements=true", "agent.labels=site=low", "node.resources=file-log", &logs_at],
        )
        .await,
    ];
    let folder = copied_sample(site.folder());
    let text = fs::read_to_string(folder.join("workflow.json")).unwrap();
    let mut workflow: Value = serde_json::from_str(&text.replace("period=1000", "period=10")).unwrap();
    workflow["functions"][0]["annotations"]["label_match_all"] = json!("site=top");
    workflow["functions"][1]["annotations"]["label_match_all"] = json!("site=low");
    fs::write(folder.join("workflow.json"), workflow.to_string()).unwrap();
    let http = client().build().unwrap();
    let get = async |manager: &str, path: &str| -> Value {
        let Ok(answer) = http.get(format!("{manager}/api/v1{path}")).send().await else { return Value::Null };
        answer.json().await.unwrap_or_default()
    };
    let (top, low) = (site.manager.url(), below.url());
    wait_until("each part has a node", async || {
        let plan = http.post(format!("{top}/api/v1/workflows/plan")).json(&workflow).send().await.unwrap();
        let plan: Value = plan.json().await.unwrap();
        let all = [&plan["functions"][0], &plan["functions"][1], &plan["resources"][0]];
        all.iter().all(|part| !part["node"].is_null())
    })
    .await;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
        command.args(arguments).env("CHOIRMASTER_URL", &top).current_dir(&folder);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["workflow", "start", "workflow.json", "--name", "messages"]);
    let log = logs.join("my-local-file.log");
    let grown = async |what: &str, by: usize| {
        let count = || numbers(&log).values().map(Vec::len).sum::<usize>();
        let before = count();
        wait_until(what, async || count() >= before + by).await;
    };
    grown("messages come", 20).await;
    below.kill();
    grown("messages go on without the manager below", 20).await;
    below.come_back().await;
    grown("messages go on with it", 20).await;
    // The node that runs `shout` is drained: another one below does, and the manager above hears where.
    let shout_at = async || -> Option<String> {
        let all = get(&low, "/workflows").await;
        for one in all["items"].as_array()? {
            let shown = get(&low, &format!("/workflows/{}", one["name"].as_str()?)).await;
            if shown["functions"][0]["function"] == "messages.shout" {
                return Some(shown["functions"][0]["instance"]["node"]["id"].as_str()?.to_owned());
            }
        }
        None
    };
    let before = shout_at().await.expect("it runs below");
    let drained = http.post(format!("{low}/api/v1/children/{before}/drain")).json(&json!({})).send().await;
    assert!(drained.unwrap().status().is_success());
    wait_until("it has left", async || shout_at().await.is_some_and(|now| now != before)).await;
    grown("messages go on from the other node", 20).await;
    run(&["workflow", "stop", "messages"]);
    wait_until("it is gone", async || {
        let answer = http.get(format!("{top}/api/v1/workflows/messages")).send().await;
        answer.is_ok_and(|answer| answer.status() == 404)
    })
    .await;
    wait_until("it is gone below", async || get(&low, "/workflows").await["items"] == json!([])).await;
    let numbers = numbers(&log);
    assert_eq!(numbers.len(), 1, "one generator: {:?}", numbers.keys());
    for (instance, numbers) in &numbers {
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{instance}: {numbers:?}");
    }
}
