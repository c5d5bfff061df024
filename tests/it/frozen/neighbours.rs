//! Real processes of an earlier build above and below this one. `tests/neighbours` builds them from the history, and runs
//! this; an ordinary run has their recorded words instead, see `above` and `below`.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use simulated::{FleetConfig, FleetReport};
use tempfile::TempDir;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::samples;
use crate::world::client;

const PATIENCE: Duration = Duration::from_mins(2);
const AGENTS: usize = 4;

/// A manager's process, killed when dropped.
struct Process {
    child: Child,
    url: String,
    http: reqwest::Client,
    _folder: TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(program: &str, parent: Option<&Self>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite://{}", folder.path().join("store.db").display());
        let mut command = Command::new(program);
        command.current_dir(folder.path()).env_clear().args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--store",
            &store,
            "--log-level",
            "warn",
        ]);
        command.arg("--functions").arg(samples()).args(["--set", "parent.poll=50ms"]);
        command.args(parent.map(|parent| format!("--parent={}", parent.url)));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").unwrap().to_owned();
        let http = client().build().unwrap();
        Self { child, url, http, _folder: folder }
    }

    async fn post(&self, path: &str, body: String) {
        let request =
            self.http.post(format!("{}{path}", self.url)).header("content-type", "application/yaml");
        let answer = request.body(body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status} {}", answer.text().await.unwrap());
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await.unwrap();
        answer.json().await.unwrap_or_default()
    }

    async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let looking = async {
            while !is_so(&last) {
                sleep(Duration::from_millis(25)).await;
                last = self.get(path).await;
            }
        };
        let in_time = timeout(PATIENCE, looking).await.is_ok();
        assert!(in_time, "{path} never was as expected: {last:#}");
        last
    }

    async fn is(&self, release: &str, state: &str) -> Value {
        self.until(&format!("/api/v1/releases/{release}"), |now| now["state"] == state).await
    }

    async fn act(&self, release: &str, act: &str) {
        self.post(&format!("/api/v1/releases/{release}/{act}"), String::new()).await;
    }
}

struct Agents {
    stop: CancellationToken,
    run: JoinHandle<FleetReport>,
}

impl Agents {
    fn below(manager: &Process) -> Self {
        let mut config =
            FleetConfig { url: manager.url.clone(), agents: AGENTS, pace: 0.01, ..FleetConfig::default() };
        config.traffic.calls_per_second = 500.0;
        config.traffic.new.errors = 0.0;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let run = tokio::spawn(async move { simulated::run(config, until, |_| ()).await.unwrap() });
        Self { stop, run }
    }

    async fn end(self) -> FleetReport {
        self.stop.cancel();
        self.run.await.unwrap()
    }
}

const BOTH: &str = include_str!("two-stages.yml");

fn release(id: &str, rollout: &str) -> String {
    BOTH.replace("id: both\n", &format!("id: {id}\n")) + "rollout:\n" + rollout
}

/// Waves with approvals, barriers with a pause, and a release that is taken back when its first wave has it.
async fn works_together(above: &str, below: &str) {
    let root = Process::start(above, None);
    let middle = Process::start(below, Some(&root));
    let agents = Agents::below(&middle);
    let all_there = |listed: &Value| listed["items"][0]["agents"] == AGENTS;
    root.until("/api/v1/children", all_there).await;

    let waves = "  order: waves\n  waves: [50%, 100%]\n  approval: before_each_wave\n";
    root.post("/release", release("waves", waves)).await;
    root.is("waves", "AwaitingApproval").await;
    root.act("waves", "approve").await;
    let done = root.is("waves", "Done").await;
    assert_eq!(done["agents"]["succeeded"], AGENTS, "{done:#}");

    let barriers = "  order: global_incremental\n  approval: before_rollout\n";
    root.post("/release", release("barriers", barriers)).await;
    root.is("barriers", "AwaitingApproval").await;
    root.act("barriers", "pause").await;
    middle.is("barriers", "Paused").await;
    root.act("barriers", "resume").await;
    root.is("barriers", "AwaitingApproval").await;
    root.act("barriers", "approve").await;
    root.is("barriers", "Done").await;

    root.post("/release", release("undone", waves)).await;
    root.is("undone", "AwaitingApproval").await;
    root.act("undone", "abort").await;
    let undone = root.is("undone", "Aborted").await;
    assert_eq!((&undone["unconfirmed"], &undone["agents"]["unconfirmed"]), (&0.into(), &0.into()));
    let report = agents.end().await;
    assert_eq!(report.totals.exited, 0, "{report:?}");
    // The half that had it is back, and each of the others runs what was rolled out before.
    let bases = report.agents.iter().filter(|agent| format!("{:?}", agent.live).contains("Base")).count();
    assert_eq!(bases, AGENTS / 2, "{report:?}");
}

fn earlier() -> String {
    std::env::var("CHOIRMASTER_NEIGHBOUR").expect("tests/neighbours builds it and sets this")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an earlier build: run tests/neighbours"]
async fn an_earlier_manager_works_above_this_one() {
    works_together(&earlier(), env!("CARGO_BIN_EXE_choirmaster")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an earlier build: run tests/neighbours"]
async fn an_earlier_manager_works_below_this_one() {
    works_together(env!("CARGO_BIN_EXE_choirmaster"), &earlier()).await;
}
