//! Trees of real processes: a manager in the middle is killed, and what it had begun ends well, on either store.

use std::{path::PathBuf, time::Duration};

use choirmaster::fleet::{self, FleetConfig, FleetReport};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    crash::server::{Server, Start, tail},
    store::place::{Kind, Place},
    world::strategy,
};

/// Longest wait for what a test expects: processes start meanwhile, on a machine that has other work.
const PATIENCE: Duration = Duration::from_mins(1);

/// Agents below each lowest manager.
const AGENTS: usize = 4;

/// A manager that is a process, and comes back to the same place with the same store.
struct Node {
    start: Start,
    server: Option<Server>,
    http: reqwest::Client,
    _folder: TempDir,
}

impl Node {
    /// On a store of its own, below another one.
    async fn below(parent: Option<&Self>, store: Option<String>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let log: PathBuf = folder.path().join("manager.log");
        let embedded = || format!("sqlite://{}", folder.path().join("choir.db").display());
        let mut set = vec!["parent.poll=50ms".to_owned()];
        set.extend(parent.map(|parent| format!("parent.url={}", parent.url())));
        let mut start = Start {
            store: store.unwrap_or_else(embedded),
            log,
            listen: "127.0.0.1:0".parse().unwrap(),
            set,
            flags: Vec::new(),
            file_limit: None,
        };
        let server = start.listening().await;
        // Those below it look for it there.
        start.listen = server.address;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { start, server: Some(server), http, _folder: folder }
    }

    fn url(&self) -> String {
        format!("http://{}", self.start.listen)
    }

    /// SIGKILL.
    fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    async fn come_back(&mut self) {
        self.server = Some(self.start.listening().await);
    }

    async fn post(&self, path: &str, body: String) {
        let request =
            self.http.post(format!("{}{path}", self.url())).header("content-type", "application/yaml");
        let answer = request.body(body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status} {}", answer.text().await.unwrap());
    }

    async fn get(&self, path: &str) -> Option<Value> {
        let answer = self.http.get(format!("{}{path}", self.url())).send().await.ok()?;
        answer.status().is_success().then_some(())?;
        answer.json().await.ok()
    }

    async fn until(&self, path: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let looking = async {
            loop {
                last = self.get(path).await.unwrap_or_default();
                if is_expected(&last) {
                    return;
                }
                sleep(Duration::from_millis(25)).await;
            }
        };
        let found = timeout(PATIENCE, looking).await;
        assert!(found.is_ok(), "{path} never was as expected: {last:#}\n{}", tail(&self.start.log));
        last
    }

    /// It knows that many children, with that many agents in all.
    async fn knows(&self, children: usize, agents: usize) {
        let of = |child: &Value| child["agents"].as_u64().unwrap_or_default().max(1);
        let all_there = |listed: &Value| {
            let listed = listed["items"].as_array().cloned().unwrap_or_default();
            listed.len() == children && listed.iter().map(of).sum::<u64>() == agents as u64
        };
        self.until("/api/v1/children", all_there).await;
    }

    async fn is(&self, release: &str, states: &[&str]) -> Value {
        let is_so = |shown: &Value| states.iter().any(|state| shown["state"] == *state);
        self.until(&format!("/api/v1/releases/{release}"), is_so).await
    }
}

/// Simulated agents below a manager, a hundred times as fast.
struct Agents {
    stop: CancellationToken,
    run: JoinHandle<FleetReport>,
}

impl Agents {
    fn below(node: &Node) -> Self {
        let mut config =
            FleetConfig { url: node.url(), agents: AGENTS, pace: 0.01, ..FleetConfig::default() };
        config.traffic.calls_per_second = 500.0;
        config.traffic.new.errors = 0.0;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let run = tokio::spawn(async move { fleet::run(config, until, |_| ()).await.unwrap() });
        Self { stop, run }
    }

    async fn end(self) -> FleetReport {
        self.stop.cancel();
        self.run.await.unwrap()
    }
}

/// How many run something else than the base version at the end; who never ran an offer runs that.
fn on_new(report: &FleetReport) -> usize {
    let is_base = |live: &str| live == "{}" || live.contains("Base");
    report.agents.iter().filter(|agent| !is_base(&format!("{:?}", agent.live))).count()
}

async fn killed_at_a_barrier(place: &Place) {
    let root = Node::below(None, None).await;
    let mut middle = Node::below(Some(&root), Some(place.url.clone())).await;
    let lower = Node::below(Some(&middle), None).await;
    let agents = Agents::below(&lower);
    root.knows(1, AGENTS).await;
    let led = strategy("41") + "rollout:\n  order: global_incremental\n  approval: before_rollout\n";
    root.post("/release", led).await;

    // While the agents are at work, and again while all wait for an approval at the top.
    lower.is("41", &["Running", "Done"]).await;
    middle.kill();
    middle.come_back().await;
    root.is("41", &["AwaitingApproval"]).await;
    middle.kill();
    root.post("/api/v1/releases/41/approve", String::new()).await;
    middle.come_back().await;

    root.is("41", &["Done"]).await;
    let shown = root.get("/api/v1/releases/41").await.unwrap();
    assert_eq!(shown["unconfirmed"].as_u64().unwrap_or_default(), 0, "{shown:#}");
    let report = agents.end().await;
    assert_eq!(report.totals.rolled_out, AGENTS, "{:?}", report.totals);
    // Known under one id, before and after.
    root.knows(1, AGENTS).await;
}

async fn killed_in_a_roll_back(place: &Place) {
    let root = Node::below(None, None).await;
    let mut nodes = vec![Node::below(Some(&root), Some(place.url.clone())).await];
    let mut agents = vec![Agents::below(&nodes[0])];
    // The one on this store is the first to register, and so the first wave.
    root.knows(1, AGENTS).await;
    for _ in 0..2 {
        nodes.push(Node::below(Some(&root), None).await);
        agents.extend(nodes.last().map(Agents::below));
    }
    root.knows(3, 3 * AGENTS).await;
    let waves = "rollout:\n  order: waves\n  waves: [33%, 100%]\n  approval: before_each_wave\n";
    root.post("/release", strategy("42") + waves).await;
    // A third is done, and the others wait.
    root.is("42", &["AwaitingApproval"]).await;
    for (place, node) in nodes.iter().enumerate() {
        let has_it = node.get("/api/v1/releases/42").await.is_some();
        assert_eq!(has_it, place == 0, "manager {place}");
    }
    nodes[0].kill();
    root.post("/api/v1/releases/42/abort", String::new()).await;
    nodes[0].come_back().await;
    let shown = root.is("42", &["Aborted", "RolledBack"]).await;
    assert_eq!(shown["unconfirmed"].as_u64().unwrap_or_default(), 0, "{shown:#}");
    let mut rolled_out = 0;
    for agents in agents {
        let report = agents.end().await;
        assert_eq!(on_new(&report), 0, "nobody runs the new version any more: {report:?}");
        rolled_out += report.agents.iter().filter(|agent| agent.offers_run > 0).count();
    }
    assert_eq!(rolled_out, AGENTS, "a third had it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_ends_well_although_the_manager_in_the_middle_is_killed_at_a_barrier_on_sqlite() {
    Place::with(Kind::Sqlite, killed_at_a_barrier).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_ends_well_although_the_manager_in_the_middle_is_killed_at_a_barrier_on_postgres() {
    Place::with(Kind::Postgres, killed_at_a_barrier).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_is_rolled_back_although_a_manager_is_killed_with_a_third_done_on_sqlite() {
    Place::with(Kind::Sqlite, killed_in_a_roll_back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_is_rolled_back_although_a_manager_is_killed_with_a_third_done_on_postgres() {
    Place::with(Kind::Postgres, killed_in_a_roll_back).await;
}
