//! Trees of real processes: a manager in the middle is killed, and what it had begun ends well, on either store.

use std::{path::PathBuf, time::Duration};

use serde_json::Value;
use simulated_children::{FleetConfig, FleetReport};
use tempfile::TempDir;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    crash::server::{Server, Start, tail},
    deadline::DEADLINE,
    store::place::{Kind, Place},
    world::{client, strategy},
};

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
    async fn below(parent: Option<&Self>, place: &Place) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log: PathBuf = folder.path().join("manager.log");
        let mut set = vec!["parent.poll=50ms".to_owned()];
        set.extend(parent.map(|parent| format!("parent.url={}", parent.url())));
        let mut start = Start {
            store: place.url.clone(),
            log,
            listen: "127.0.0.1:0".parse().unwrap(),
            set,
            flags: Vec::new(),
            file_limit: None,
        };
        let server = start.listening().await;
        // Those below it look for it there.
        start.listen = server.address;
        let http = client().build().unwrap();
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
        let found = timeout(DEADLINE, looking).await;
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
        let run = tokio::spawn(async move { simulated_children::run(config, until, |_| ()).await.unwrap() });
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

async fn killed_at_a_barrier(places: &[Place]) {
    let root = Node::below(None, &places[0]).await;
    let mut middle = Node::below(Some(&root), &places[1]).await;
    let lower = Node::below(Some(&middle), &places[2]).await;
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

const WAVES: &str = "rollout:\n  order: waves\n  waves: [33%, 100%]\n  approval: before_each_wave\n";

async fn killed_in_a_roll_back(places: &[Place]) {
    let root = Node::below(None, &places[0]).await;
    let mut nodes = vec![Node::below(Some(&root), &places[1]).await];
    let mut agents = vec![Agents::below(&nodes[0])];
    // The one that will be killed is the first to register, and so the first wave.
    root.knows(1, AGENTS).await;
    for place in &places[2..4] {
        nodes.push(Node::below(Some(&root), place).await);
        agents.extend(nodes.last().map(Agents::below));
    }
    root.knows(3, 3 * AGENTS).await;
    root.post("/release", strategy("42") + WAVES).await;
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

async fn killed_between_waves_and_in_an_undo(places: &[Place]) {
    let root = Node::below(None, &places[0]).await;
    let mut middle = Node::below(Some(&root), &places[1]).await;
    let mut lower = Node::below(Some(&middle), &places[2]).await;
    let agents = Agents::below(&lower);
    root.knows(1, AGENTS).await;
    // One child here, whose agents have their turns in both waves.
    root.post("/release", strategy("43") + WAVES).await;
    root.is("43", &["AwaitingApproval"]).await;
    let first = lower.get("/api/v1/releases/43").await.unwrap();
    let (done, todo) = (&first["counts"]["done"], &first["counts"]["todo"]);
    assert!(done.as_u64() > Some(0) && todo.as_u64() > Some(0), "some wait: {first:#}");

    // The wave goes on below: both are away as it is opened, and one is killed again when it has heard of it.
    middle.kill();
    lower.kill();
    root.post("/api/v1/releases/43/approve", String::new()).await;
    middle.come_back().await;
    lower.come_back().await;
    middle.until("/api/v1/releases/43/children", |shown| shown["items"][0]["offer"] == "43.r2").await;
    middle.kill();
    middle.come_back().await;
    root.is("43", &["Done"]).await;
    lower.is("43", &["Done"]).await;

    // The next one is taken back when its first wave has rolled out.
    root.post("/release", strategy("44") + WAVES).await;
    root.is("44", &["AwaitingApproval"]).await;
    let first = lower.get("/api/v1/releases/44").await.unwrap();
    let first = first["counts"]["done"].as_u64().unwrap() as usize;
    root.post("/api/v1/releases/44/abort", String::new()).await;
    // The undo is on its way: below it has begun, and above nobody knows that it is over. An agent whose own manager is
    // gone at that moment dies with the undo in its hand, so that one stays.
    lower.is("44", &["RollingBack", "Aborted", "RolledBack"]).await;
    middle.kill();
    middle.come_back().await;
    let shown = root.is("44", &["Aborted", "RolledBack"]).await;
    assert_eq!(shown["unconfirmed"].as_u64().unwrap_or_default(), 0, "{shown:#}");
    let report = agents.end().await;
    assert_eq!(
        on_new(&report),
        AGENTS - first,
        "44 is gone where it was, 43 stays where it was not: {report:?}"
    );
}

/// Each story on either store: every manager of it has one of its own.
macro_rules! stories {
    ($($name:ident: $story:ident on $places:literal),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::Place::several(super::Kind::Sqlite, $places, super::$story).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::Place::several(super::Kind::Postgres, $places, super::$story).await;
            })*
        }
    };
}

stories! {
    a_release_ends_well_although_the_manager_in_the_middle_is_killed_at_a_barrier: killed_at_a_barrier on 3,
    everybody_is_rolled_back_although_a_manager_is_killed_with_a_third_done: killed_in_a_roll_back on 4,
    waves_go_on_and_undos_arrive_although_managers_are_killed_meanwhile: killed_between_waves_and_in_an_undo on 3,
}
