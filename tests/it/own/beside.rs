//! Own agents beside deployed ones, below a manager below another one, and under a manager that knows nothing of them.

use std::{
    io::{Cursor, Write as _},
    path::Path,
};

use serde_json::{Value, json};
use simulated::FleetConfig;
use tokio_util::sync::CancellationToken;
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{
    manager::Manager,
    node::Node,
    reference,
    releases::{Kind, TWO_STAGES, stages, strategy},
    serving::Behaviour::{self, Failing, Good},
    site::{FUNCTION, Site},
    stages::{habits, nothing_is_left_but},
    wait::wait_until,
};

/// Deployed agents, simulated.
const DEPLOYED: usize = 8;
/// With them, two own agents and a manager.
const CHILDREN: usize = DEPLOYED + 3;

/// The sample of growing waves, of the function of these tests, with short pauses.
fn waves(base: &str, new: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("releases/waves.yml");
    let mut text = std::fs::read_to_string(file).unwrap();
    for (old, put) in [
        ("name: sieve", format!("name: {FUNCTION}")),
        ("fns/sieve_base", format!("fns/{base}")),
        ("fns/sieve_new", format!("fns/{new}")),
        ("env: nodejs", "env: program".to_owned()),
        ("soak: 10s", "soak: 100ms".to_owned()),
    ] {
        assert!(text.contains(old), "the sample has no {old:?}");
        text = text.replace(old, &put);
    }
    text
}

/// A manager of this name below that of the site, which has no functions of its own.
pub(super) async fn manager_below(site: &Site, name: &str) -> Manager {
    let set = [format!("parent.url={}", site.manager.url()), "parent.poll=50ms".to_owned()];
    let empty = site.folder().join("no-functions");
    std::fs::create_dir_all(&empty).unwrap();
    Manager::start(&site.folder().join(name), &empty, &set).await
}

/// Whether the manager of the site knows that there are so many agents below a manager below it.
pub(super) fn has_agents_below(children: &Value, agents: u64) -> bool {
    let all = children["items"].as_array().cloned().unwrap_or_default();
    all.iter().any(|child| child["kind"] == "rm" && child["agents"] == agents)
}

/// Deployed agents, own agents, and a manager below with an own agent: what became of the release, and of each child's part in it.
async fn a_mixed_fleet_runs_waves_with(canary: Behaviour, errors: f64) -> (String, Vec<Value>) {
    let mut site = Site::start().await;
    let set = ["agent.keep_base=60s"];
    let middle = manager_below(&site, "middle").await;
    let nodes = [
        site.node("edge-1", &set).await,
        site.node("edge-2", &set).await,
        site.node_below(&middle, "edge-3", &set).await,
    ];
    middle.knows(1).await;
    let mut config =
        FleetConfig { url: site.manager.url(), agents: DEPLOYED, pace: 0.02, ..FleetConfig::default() };
    config.traffic.calls_per_second = 500.0;
    config.traffic.new.errors = errors;
    let stop = CancellationToken::new();
    let until = stop.clone();
    let fleet = tokio::spawn(async move { simulated::run(config, until, |_| ()).await.unwrap() });
    site.manager.knows(CHILDREN).await;
    site.manager.until("/api/v1/children", |listed| has_agents_below(listed, 1)).await;
    let (base, new) = (site.version(Good), site.version(canary));
    let mut callers = Vec::new();
    for node in &nodes {
        node.add(&site.content(&base));
        callers.push(super::callers::Callers::start(node.at, &habits(), super::callers::PATIENCE));
    }
    site.manager.submit(&waves(&base, &new)).await;
    let approve = async || {
        loop {
            match site.manager.state("waves").await.as_deref() {
                Some("AwaitingApproval") => {
                    let path = "/api/v1/releases/waves/approve";
                    // Somebody may have been faster: the release itself.
                    let _ = site.manager.order(path, &json!({"by": "tester"})).await;
                }
                // Nobody has succeeded so far, and a person wants to see it once more.
                Some("Paused") => {
                    let _ =
                        site.manager.order("/api/v1/releases/waves/resume", &json!({"by": "tester"})).await;
                }
                Some(_) if site.manager.is_over("waves").await => return,
                _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(4), approve()).await.expect("the release ends");
    let state = site.manager.state("waves").await.unwrap();
    let serving = if state == "Done" { &new } else { &base };
    for node in &nodes {
        let status = node.is_at_rest().await;
        let stable = &status.functions[0].stable;
        let runs = site.running(serving).iter().any(|one| Some(one.pid) == stable.pid);
        assert!(runs || stable.pid.is_none(), "{status:#?}");
    }
    wait_until("all serve it", async || site.running(serving).len() == nodes.len()).await;
    for callers in callers {
        assert_eq!(callers.lost(), 0);
        callers.finish().await;
    }
    stop.cancel();
    fleet.await.unwrap();
    let parts = site.manager.parts("waves").await;
    (state, parts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_agents_deployed_ones_and_a_manager_below_run_a_good_release_in_waves() {
    let (state, parts) = a_mixed_fleet_runs_waves_with(Good, 0.0).await;
    assert_eq!(state, "Done", "{parts:#?}");
    let succeeded = parts.iter().filter(|part| part["outcome"] == "succeeded").count();
    assert_eq!(succeeded, CHILDREN, "{parts:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_agents_deployed_ones_and_a_manager_below_go_back_with_a_bad_release() {
    let (state, parts) = a_mixed_fleet_runs_waves_with(Failing, 0.5).await;
    assert_eq!(state, "RolledBack", "{parts:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_agent_under_a_manager_below_another_one_runs_what_that_one_releases() {
    let mut site = Site::start().await;
    let middle = manager_below(&site, "middle").await;
    let node = site.node_below(&middle, "edge", &["agent.keep_base=0s"]).await;
    middle.knows(1).await;
    site.manager.until("/api/v1/children", |listed| has_agents_below(listed, 1)).await;
    let mut base = site.version(Good);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    for (id, canary, state) in [("good", Good, "Done"), ("bad", Failing, "RolledBack")] {
        let new = site.version(canary);
        let more = "rollout: {order: parallel, max_failed: 0, on_failure: rollback}\n";
        site.manager.submit(&strategy(id, [&base, &new], &stages(Kind::Wait, TWO_STAGES, 500), more)).await;
        let ended = site.manager.ended(id).await;
        assert_eq!(ended["state"], state, "{ended:#}");
        if state == "Done" {
            base = new;
        }
    }
    node.is_at_rest().await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    nothing_is_left_but(&site, &node.folder, &base).await;
}

/// The functions of a release, as managers pack them.
fn archive(site: &Site, versions: [&str; 2]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for version in versions {
        let file = SimpleFileOptions::default().unix_permissions(0o644);
        zip.start_file(format!("fns/{version}/run"), file).unwrap();
        zip.write_all(&std::fs::read(site.content(version).join("run")).unwrap()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Completed, as it is written in results.
const COMPLETED: u64 = 4;

/// A manager that knows of nothing but the reference offers a release, and no poll of it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_agent_under_a_manager_of_the_reference_walks_through_all_stages_and_rolls_out() {
    let mut site = Site::start().await;
    let (base, new) = (site.version(Good), site.version(Good));
    let text = strategy("plain", [&base, &new], &stages(Kind::Wait, TWO_STAGES, 300), "");
    let script = reference::Script {
        offers: vec![("plain".to_owned(), text, archive(&site, [&base, &new]))],
        end_at: Some(6),
        ..reference::Script::of("")
    };
    let manager = reference::Manager::start(script).await;
    let node = Node::start(&site.folder().join("edge"), "edge", &manager.url, &["agent.keep_base=0s"]).await;
    // Nothing is added by hand: the release brings the base version.
    node.until("the base version serves", |status| !status.functions.is_empty()).await;
    wait_until("its table is in force", async || node.share().await.is_some()).await;
    let load = node.call(&habits()).await;
    let ended = |calls: &[reference::Call], stage: &str| {
        let results = reference::results(calls);
        results.iter().any(|call| call.stage() == stage && call.status() == Some(COMPLETED))
    };
    wait_until("both stages are reported", async || {
        let calls = manager.calls();
        ended(&calls, "s0") && ended(&calls, "s1")
    })
    .await;
    node.is_at_rest().await;
    load.more_calls(100).await;
    let (ledger, _) = load.finish(&site).await;
    let sums = ledger.sums();
    assert_eq!(sums.answered, sums.calls, "{sums}");
    assert_eq!(ledger.more_than_once(|_| true), 0);
    nothing_is_left_but(&site, &node.folder, &new).await;
}
