//! How long it takes until a function has moved to another node: the program itself as manager and as two agents.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    rows::{Bench, PREPARATION, say},
    shared::figures::median,
};

/// Moves that are measured.
const MOVES: usize = 20;

/// From the order until calls go to the new instance, whose process has to be started.
const LIMIT_MS: f64 = 250.0;

/// Ends with what runs it.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
    command
}

/// `set`: `KEY=VALUE`.
pub(crate) fn manager(folder: &Path, set: &[&str]) -> anyhow::Result<(Process, SocketAddr)> {
    let mut command = program();
    let store = format!("sqlite://{}", folder.join("manager.db").display());
    command.args(["serve", "--log-level", "error", "--listen", "127.0.0.1:0", "--store", &store]);
    command.args(["--functions", env!("CARGO_MANIFEST_DIR")]).current_dir(folder).stdout(Stdio::piped());
    command.args(set.iter().flat_map(|set| ["--set", set]));
    let mut process = Process(command.spawn()?);
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().context("the manager has no output")?).read_line(&mut line)?;
    let address =
        line.trim_end().strip_prefix("listening on http://").context("the manager does not listen")?;
    Ok((process, address.parse()?))
}

/// `more`: further arguments, where its proxy listens among them.
pub(crate) fn agent(
    folder: &Path,
    name: &str,
    manager: SocketAddr,
    more: &[&str],
) -> anyhow::Result<Process> {
    let folder = folder.join(name);
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let below = |file: &str| folder.join(file).display().to_string();
    let mut command = program();
    command.args([
        "agent",
        "--log-level",
        "error",
        "--manager",
        &format!("http://{manager}"),
        "--name",
        name,
    ]);
    command.args(["--at", "52.52,13.405"]).args(more);
    for (flag, file) in [("--state", "state"), ("--control", "agent.sock"), ("--proxy", "proxy.sock")] {
        command.args([flag, &below(file)]);
    }
    command.args(["--set", &format!("proxy.state={}", below("proxy"))]);
    Ok(Process(command.current_dir(&folder).spawn()?))
}

/// What a manager answers.
pub(crate) async fn ask(http: &Client, manager: SocketAddr, path: &str) -> anyhow::Result<Value> {
    Ok(http.get(format!("http://{manager}/api/v1{path}")).send().await?.error_for_status()?.json().await?)
}

/// Where a function runs, once nothing of it is to change.
pub(crate) fn settled(shown: &Value) -> Option<&str> {
    let function = &shown["functions"][0];
    let is_settled = function["instance"]["phase"] == "running"
        && function["next"].is_null()
        && function["ending"].as_array().is_some_and(Vec::is_empty);
    is_settled.then(|| function["instance"]["node"]["id"].as_str()).flatten()
}

impl Bench {
    pub async fn migration(&mut self) -> anyhow::Result<()> {
        say("a function moves between two agents");
        let folder = self.folder.join("migration");
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let (_manager, at) = manager(&folder, &[])?;
        let takes_part = ["--listen", "127.0.0.1:0", "--set", "node.placements=true"];
        let _agents = [agent(&folder, "one", at, &takes_part)?, agent(&folder, "two", at, &takes_part)?];
        let http = Client::builder().no_proxy().build()?;
        let end = Instant::now() + PREPARATION;
        let workflow = json!({"functions": [{
            "name": "f",
            "class_specification":
                {"id": "f", "function_type": "python", "version": "1", "code": "fns/greet_base", "outputs": []},
        }]});
        let plan = http.post(format!("http://{at}/api/v1/workflows/plan"));
        while plan.try_clone().context("a request")?.json(&workflow).send().await?.json::<Value>().await?["nodes"]
            != 2
        {
            ensure!(Instant::now() < end, "the agents never came");
            sleep(Duration::from_millis(20)).await;
        }
        let started =
            http.post(format!("http://{at}/api/v1/workflows?name=w")).json(&workflow).send().await?;
        started.error_for_status()?;
        let children = ask(&http, at, "/children").await?;
        let nodes = children["items"].as_array().context("children")?.iter();
        let nodes: Vec<String> = nodes.filter_map(|child| child["id"].as_str().map(str::to_owned)).collect();
        let (mut serves, mut ended) = (Vec::new(), Vec::new());
        for round in 0..=MOVES {
            let from = loop {
                if let Some(node) = settled(&ask(&http, at, "/workflows/w").await?) {
                    break node.to_owned();
                }
                ensure!(Instant::now() < end, "the function never runs");
                sleep(Duration::from_millis(5)).await;
            };
            let to = nodes.iter().find(|node| **node != from).context("another node")?;
            let began = Instant::now();
            let body = json!({"function": "f", "nodes": [to]});
            let moves = http.post(format!("http://{at}/api/v1/workflows/w/move")).json(&body).send().await?;
            moves.error_for_status()?;
            let mut served = None;
            let gone = loop {
                let shown = ask(&http, at, "/workflows/w").await?;
                let instance = &shown["functions"][0]["instance"];
                if instance["node"]["id"] == **to && instance["phase"] == "running" {
                    served.get_or_insert_with(|| began.elapsed());
                }
                if settled(&shown) == Some(to) {
                    break began.elapsed();
                }
                ensure!(Instant::now() < end, "the function never moves");
                sleep(Duration::from_millis(1)).await;
            };
            // The first one fills caches.
            if round > 0 {
                serves.push(served.context("it runs where it moved to")?.as_secs_f64() * 1e3);
                ended.push(gone.as_secs_f64() * 1e3);
            }
        }
        let (serves, ended) = (median(&serves), median(&ended));
        self.table.line(
            "a function moves to another agent, which starts its process",
            &format!("serves after {serves:.0} ms, has ended elsewhere after {ended:.0} ms"),
            "",
            "",
            &format!("serves ≤ {LIMIT_MS:.0} ms"),
            Some(serves <= LIMIT_MS),
        );
        Ok(())
    }
}
