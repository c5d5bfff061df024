//! Programs outside read in Redis what agents measured and run, and steer them there, with nothing but redis-cli.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{passed_on::copied, site::Site, wait::wait_until};
use crate::{mirror::server::Redis, world::client};

/// The chain of the documents: its metrics come, and a function moves because somebody has put an intent there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_of_a_chain_stand_in_redis_and_a_function_of_it_moves_by_two_calls() {
    let redis = Redis::start().await;
    let settings = [
        "placement.keep_alive=1h".to_owned(),
        format!("mirror.url={}", redis.url()),
        "mirror.performance_samples=true".to_owned(),
    ];
    let site = Site::with(&settings).await;
    let offers = ["node.placements=true", "node.resources=metrics-collector"];
    let mut nodes = [site.node("first", &offers).await, site.node("second", &["node.placements=true"]).await];
    let url = format!("{}/api/v1", site.manager.url());
    let http = client().build().unwrap();
    let folder = copied(site.folder(), "vector_mul");
    let workflow = fs::read_to_string(folder.join("workflow-chain.json")).unwrap();
    wait_until("the nodes are known", async || {
        let plan = http.post(format!("{url}/workflows/plan")).body(workflow.clone()).send().await.unwrap();
        plan.json::<Value>().await.unwrap()["nodes"] == 2
    })
    .await;
    let mut start = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
    start.args(["workflow", "start", "workflow-chain.json", "--name", "chain"]).current_dir(&folder);
    let started = start.env("CHOIRMASTER_URL", site.manager.url()).stdin(Stdio::null()).output().unwrap();
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));

    let average = async || redis.cli(&["get", "workflow:wf_chain:average"]).parse::<f64>();
    wait_until("the chain is measured", async || average().await.is_ok_and(|average| average >= 0.0)).await;
    let samples = async || redis.cli(&["lrange", "workflow:wf_chain:samples", "0", "4"]);
    wait_until("there are samples", async || samples().await.lines().count() == 5).await;
    let times: Vec<f64> = samples()
        .await
        .lines()
        .map(|line| {
            let (ms, at) = line.split_once(',').unwrap();
            assert!(ms.parse::<u64>().is_ok() && at.split_once('.').unwrap().1.len() == 3, "{line}");
            at.parse().unwrap()
        })
        .collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "newest first: {times:?}");

    let shown = async || -> Value {
        let Ok(answer) = http.get(format!("{url}/workflows/chain")).send().await else { return Value::Null };
        answer.json().await.unwrap_or_default()
    };
    let now = shown().await;
    let function = &now["functions"][1];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (logical, from) = (text(&function["logical_id"]), text(&function["instance"]["node"]["id"]));
    wait_until("a function is measured", async || {
        redis.cli(&["get", &format!("function:{logical}:average")]).parse::<f64>().is_ok()
    })
    .await;
    let scored = |key: String| redis.cli(&["zcard", &key]).parse::<u64>().unwrap_or(0);
    let instance = text(&function["instance"]["id"]);
    for series in ["function_execution_time", "function_transfer_time"] {
        wait_until(series, async || scored(format!("performance:{instance}:{series}")) > 0).await;
    }
    for node in [&from, &text(&now["resources"][0]["instance"]["node"]["id"])] {
        wait_until("its health is known", async || scored(format!("node:health:{node}")) > 0).await;
    }

    let children: Value = http.get(format!("{url}/children")).send().await.unwrap().json().await.unwrap();
    let mut ids = children["items"].as_array().unwrap().iter().map(|child| text(&child["id"]));
    let to = ids.find(|id| *id != from).unwrap();
    let intent = format!("intent:migrate:{logical}");
    redis.cli(&["set", &intent, &to]);
    redis.cli(&["rpush", "intents", &intent]);
    wait_until("it has moved", async || {
        let function = shown().await["functions"][1].clone();
        function["instance"]["phase"] == "running" && text(&function["instance"]["node"]["id"]) == to
    })
    .await;
    let counted = || {
        let text = redis.cli(&["lindex", "workflow:wf_chain:samples", "0"]);
        text.trim().to_owned()
    };
    let before = counted();
    wait_until("the chain goes on", async || counted() != before).await;
    // The collector's machine is killed, and with it what was begun there.
    nodes[0].kill();
    nodes[0].come_back();
    let before = counted();
    wait_until("the chain goes on", async || counted() != before).await;
    let metrics =
        http.get(format!("{}/metrics", site.manager.url())).send().await.unwrap().text().await.unwrap();
    assert!(
        metrics.contains("choirmaster_application_seconds_count{of=\"workflow\",name=\"wf_chain\"} "),
        "{metrics}"
    );
}
