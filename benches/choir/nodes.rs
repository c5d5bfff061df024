//! Nodes of workflows: what their calls take while nothing happens, and how long it takes until what ran on dead ones runs elsewhere.
//!
//! Nodes are simulated: each has a connection of its own, waits there for news, and runs at once what it is told to.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    bodies,
    load::Connection,
    rows::{Bench, PREPARATION, say},
    server::Server,
    shared::figures::median,
    table::thousands,
};

/// `placement.keep_alive` as it is by default; a node waits for half of it.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Nodes of the second row, and how many of them die; each runs so many functions.
const NODES: usize = 250;
const DEAD: usize = 100;
const EACH: usize = 10;

/// Half of one processor.
const SHARE: f64 = 0.5;

impl Bench {
    pub async fn nodes(&mut self) -> anyhow::Result<()> {
        self.idle_nodes().await?;
        self.dead_nodes().await
    }

    /// Nodes with nothing new.
    async fn idle_nodes(&mut self) -> anyhow::Result<()> {
        let count = self.sizes.nodes;
        say(&format!("calls of {count} nodes with nothing new"));
        let store = self.sqlite("nodes.db");
        let server = Server::ours(&store, self.processors.apart())?;
        let mut calls = JoinSet::new();
        let counted = Arc::new(AtomicUsize::new(0));
        for at in 0..count {
            let node = Node::register(server.address, at).await?;
            calls.spawn(node.run(Arc::clone(&counted)));
        }
        sleep(KEEP_ALIVE).await;
        let mut shares = Vec::new();
        let (mut answered, began) = (counted.load(Ordering::Relaxed), Instant::now());
        for _ in 0..self.sizes.rounds.max(3) {
            let (before, from) = (server.cpu()?, Instant::now());
            sleep(self.sizes.round).await;
            shares.push(server.cpu()?.saturating_sub(before).as_secs_f64() / from.elapsed().as_secs_f64());
        }
        answered = counted.load(Ordering::Relaxed) - answered;
        let a_second = answered as f64 / began.elapsed().as_secs_f64();
        if let Some(ended) = calls.try_join_next() {
            ended?.context("a node was cut off")?;
        }
        let share = median(&shares);
        self.table.line(
            &format!("`POST /placements` of {} nodes that wait {} s each", thousands(count as f64), 1),
            &format!("{}/s, {:.2} of a processor", thousands(a_second), share),
            "",
            "",
            &format!("≤ {SHARE} of a processor"),
            Some(share <= SHARE),
        );
        drop(calls);
        server.stop()
    }

    /// What ran on nodes that say nothing any more.
    async fn dead_nodes(&mut self) -> anyhow::Result<()> {
        let functions = NODES * EACH;
        say(&format!("{DEAD} of {NODES} nodes die with {} functions", DEAD * EACH));
        let mut took = Vec::new();
        for round in 0..self.sizes.rounds.max(3) {
            let store = self.sqlite(&format!("dead-nodes-{round}.db"));
            let server = Server::ours(&store, self.processors.apart())?;
            let mut nodes = Vec::new();
            for at in 0..NODES {
                let node = Node::register(server.address, at).await?;
                let running = Arc::clone(&node.running);
                nodes.push((running, tokio::spawn(node.run(Arc::default()))));
            }
            start(server.address, "w", functions).await?;
            let run_of = |nodes: &[(Arc<AtomicUsize>, _)]| -> usize {
                nodes.iter().map(|(running, _)| running.load(Ordering::Relaxed)).sum()
            };
            until(|| run_of(&nodes) == functions).await?;
            let alive = nodes.split_off(DEAD);
            let dead = run_of(&nodes);
            ensure!(dead == DEAD * EACH, "the dead nodes had {dead} functions");
            let began = Instant::now();
            for (_, calls) in &nodes {
                calls.abort();
            }
            until(|| run_of(&alive) == functions).await?;
            took.push(began.elapsed().as_secs_f64());
            for (_, calls) in &alive {
                calls.abort();
            }
            server.stop()?;
        }
        let took = median(&took);
        let limit = KEEP_ALIVE.as_secs_f64() + 1.0;
        self.table.line(
            &format!(
                "{} functions of {DEAD} nodes that died run on {} others",
                thousands((DEAD * EACH) as f64),
                NODES - DEAD
            ),
            &format!("{took:.2} s"),
            "",
            "",
            "≤ keep-alive + 1 s",
            Some(took <= limit),
        );
        Ok(())
    }
}

pub(crate) async fn until(mut is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    let end = Instant::now() + PREPARATION;
    while !is_so() {
        ensure!(Instant::now() < end, "not all functions run");
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// A workflow of so many functions, which no event ties to each other.
pub(crate) async fn start(address: SocketAddr, name: &str, functions: usize) -> anyhow::Result<()> {
    let function = |at: usize| {
        json!({
            "name": format!("f{at}"),
            "class_specification":
                {"id": "f", "function_type": "python", "version": "1", "code": "fns/greet_base", "outputs": []},
        })
    };
    let workflow = json!({"functions": (0..functions).map(function).collect::<Vec<_>>()});
    let path = format!("/api/v1/workflows?name={name}&strategy=spread");
    let request = bodies::post(&path, bodies::JSON, &workflow.to_string());
    let (status, head, end) = Connection::open(address).await?.exchange(request.as_bytes()).await?;
    ensure!(status == 201, "the workflow is answered with {status} ({} bytes)", end - head);
    Ok(())
}

/// One that runs at once what it is told to.
pub(crate) struct Node {
    connection: Connection,
    pub(crate) id: String,
    /// How many functions it runs.
    pub(crate) running: Arc<AtomicUsize>,
}

impl Node {
    pub(crate) async fn register(address: SocketAddr, at: usize) -> anyhow::Result<Self> {
        let mut connection = Connection::open(address).await?;
        let mut poll = json!({
            "id": "", "name": format!("node-{at}"), "kind": "agent",
            "capabilities": {"runtimes": ["python"], "node": {"cpus": 1, "cores": 4, "mhz": 2_000}},
        });
        let request = bodies::post("/poll", bodies::JSON, &poll.to_string());
        let answer: Value = serde_json::from_slice(connection.call(request.as_bytes()).await?)?;
        let id = answer["id"].as_str().context("a node got no id")?.to_owned();
        // Who never calls again after its birth is forgotten.
        poll["id"] = json!(id);
        let request = bodies::post("/poll", bodies::JSON, &poll.to_string());
        connection.call(request.as_bytes()).await?;
        Ok(Self { connection, id, running: Arc::default() })
    }

    /// Until it is aborted. `answered`: grows with each call that is answered.
    pub(crate) async fn run(mut self, answered: Arc<AtomicUsize>) -> anyhow::Result<()> {
        let mut wait_ms = KEEP_ALIVE.as_millis() as u64 / 2;
        let mut state: Option<String> = None;
        let mut runs: HashSet<String> = HashSet::new();
        loop {
            let instances: Vec<Value> = runs.iter().map(|id| json!({"id": id, "phase": "running"})).collect();
            let body = json!({"id": self.id, "state": state, "instances": instances});
            let path = format!("/placements?wait={wait_ms}ms");
            let request = bodies::post(&path, bodies::JSON, &body.to_string());
            let answer: Value = serde_json::from_slice(self.connection.call(request.as_bytes()).await?)?;
            answered.fetch_add(1, Ordering::Relaxed);
            state = answer["state"].as_str().map(str::to_owned);
            wait_ms = answer["keep_alive_ms"].as_u64().map_or(wait_ms, |keep_alive| keep_alive / 2);
            if let Some(told) = answer["instances"].as_array() {
                let wanted = told.iter().filter(|one| one["state"] != "end");
                runs = wanted.filter_map(|one| Some(one["id"].as_str()?.to_owned())).collect();
                self.running.store(runs.len(), Ordering::Relaxed);
            }
        }
    }
}
