//! What the end of an agent means for what it runs.

use serde_json::json;

use super::{
    processes,
    releases::{Kind, Stage, stages, strategy},
    serving::Behaviour::{Good, Slow},
    site::Site,
    stages::{habits, nothing_is_left_but},
    wait::wait_until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_agent_leaves_versions_serving_for_next_to_adopt() {
    let mut site = Site::start().await;
    let mut node = site.node("edge", &["agent.keep_base=0s"]).await;
    site.manager.knows(1).await;
    let (base, new) = (site.version(Good), site.version(Good));
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    // The first stage lasts until it is skipped.
    let first = Stage { kind: Kind::Wait, share: 10, milliseconds: 600_000 };
    let stages = [&[first][..], &stages(Kind::Wait, &[30, 50], 400)].concat();
    site.manager.submit(&strategy("r", [&base, &new], &stages, "")).await;
    node.until("a stage is run", |status| status.functions[0].candidate.is_some()).await;
    let pids = |site: &Site| {
        [&base, &new].map(|version| site.running(version).iter().map(|one| one.pid).collect::<Vec<_>>())
    };
    let (before, proxies) = (pids(&site), node.proxy_processes().len());
    assert_eq!(node.terminate().await.code(), Some(0));
    load.more_calls(300).await;
    assert_eq!(pids(&site), before);
    assert_eq!(node.proxy_processes().len(), proxies);
    node.come_back();
    node.until_it_answers().await;
    let skip = "/api/v1/releases/r/stages/s0/skip";
    let (status, text) = site.manager.order(skip, &json!({"by": "tester"})).await;
    assert!((200..300).contains(&status), "{status} {text}");
    let ended = site.manager.ended("r").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    assert_eq!(pids(&site)[1], before[1]);
    node.is_at_rest().await;
    load.more_calls(100).await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    nothing_is_left_but(&site, &node.folder, &new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_agent_ends_proxy_and_versions_without_losing_calls() {
    let mut site = Site::start().await;
    let mut node = site.node("edge", &["agent.stop=drain"]).await;
    let base = site.version(Slow);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    load.more_calls(100).await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    assert_eq!(node.terminate().await.code(), Some(0));
    let folder = node.folder.to_str().unwrap().to_owned();
    wait_until("nothing of it runs", async || processes::with(&folder).is_empty()).await;
}
