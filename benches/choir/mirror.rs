//! The mirror in Redis: how soon it is whole, how soon changes and intents go through it, and what it takes of a manager.
//!
//! Redis is started for this, and keeps nothing on a disk. Nodes are simulated, as in [`crate::nodes`]: they run at once what they are told
//! to, as a node does that has the version of a function already.

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use redis::{Pipeline, aio::MultiplexedConnection, cmd};
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep},
};

use crate::{
    bodies::{self, Caller},
    fill,
    load::{self, Connection, Cursor, Work},
    migration::settled,
    nodes::{Node, start, until},
    redis_server::Redis,
    rows::{Bench, PREPARATION, ready, say},
    server::{Above, Server},
    shared::figures::median,
    table::{Side, Target, thousands},
    viewers::Beside,
};

/// Functions of a node, and of a workflow; and the workflow of the one function that moves.
const OF_NODE: usize = 100;
const OF_WORKFLOW: usize = 2_500;
const MOVED: &str = "moved";

/// Changes of nodes that are measured, and intents. A manager keeps its last 100 answers to a key.
const CHANGES: usize = 200;
const INTENTS: usize = 50;

/// Changes of a node in a second, during polls.
const PACE: u64 = 100;
/// A manager is at rest for so many rounds: the kernel tells its processor time in 10 ms.
const REST: u32 = 20;

/// After so long without trouble the mirror begins again at once.
const CALM: Duration = Duration::from_secs(11);

/// Limits, the last one of a processor.
const WHOLE_S: f64 = 2.0;
const SHOWN_MS: f64 = 10.0;
const MOVED_MS: f64 = 100.0;
const REST_SHARE: f64 = 0.001;

impl Bench {
    pub(crate) async fn mirror(&mut self) -> anyhow::Result<()> {
        if !is_installed() {
            self.table.missing("the mirror", "redis-server is not installed");
            return Ok(());
        }
        let mut full = Full::start(self).await?;
        self.rebuilt(&mut full).await?;
        self.shown(&mut full).await?;
        self.intents(&mut full).await?;
        full.stop()?;
        self.mirrored_polls().await?;
        self.at_rest().await
    }

    /// All of it, into a Redis that was emptied.
    async fn rebuilt(&mut self, full: &mut Full) -> anyhow::Result<()> {
        let functions = self.sizes.placed_functions;
        say(&format!("a mirror of {functions} instances is rebuilt"));
        let redis = &mut full.redis;
        // An instance and its dependencies each.
        until_there(redis, 2 * functions + full.nodes.len()).await?;
        let (mut took, mut since) = (Vec::new(), Vec::new());
        for _ in 0..self.sizes.rounds.max(3) {
            sleep(CALM).await;
            let keys: usize = cmd("DBSIZE").query_async(redis).await?;
            cmd("FLUSHDB").query_async::<()>(redis).await?;
            let emptied = Instant::now();
            until_there(redis, 1).await?;
            let begun = Instant::now();
            until_there(redis, keys).await?;
            took.push(begun.elapsed().as_secs_f64());
            since.push(emptied.elapsed().as_secs_f64());
        }
        let (took, since) = (median(&took), median(&since));
        self.table.limit(
            &format!("the mirror of {} instances, rebuilt from nothing", thousands(functions as f64)),
            &format!("{took:.2} s from its first key on, {since:.2} s after Redis was emptied"),
            took / WHOLE_S,
            &format!("≤ {WHOLE_S} s"),
        );
        Ok(())
    }

    /// One change, from the answer to whoever made it until a reader sees it.
    async fn shown(&mut self, full: &mut Full) -> anyhow::Result<()> {
        say("changes in the mirror");
        let node = full.nodes.first().context("there is no node")?;
        let key = format!("node:capabilities:{node}");
        let mut took = Vec::new();
        for is_cordoned in [true, false].into_iter().cycle().take(CHANGES) {
            let shows = format!("\"cordoned\":{is_cordoned}");
            full.http.call(cordon(node, is_cordoned).as_bytes()).await?;
            let answered = Instant::now();
            loop {
                let text: Option<String> = cmd("GET").arg(&key).query_async(&mut full.redis).await?;
                if text.is_some_and(|text| text.contains(&shows)) {
                    break;
                }
                ensure!(answered.elapsed() < PREPARATION, "a change never came to the mirror");
            }
            took.push(answered.elapsed().as_secs_f64() * 1e3);
        }
        let (shown, longest) = (median(&took), took.iter().copied().fold(0.0, f64::max));
        self.table.limit(
            &format!("a change of a node is in the mirror after it was answered, {CHANGES} of them"),
            &format!("{shown:.1} ms, {longest:.1} ms at most"),
            shown / SHOWN_MS,
            &format!("≤ {SHOWN_MS} ms"),
        );
        Ok(())
    }

    /// Intents to migrate, until they are answered, and the function runs on the other node and the mirror says so.
    async fn intents(&mut self, full: &mut Full) -> anyhow::Result<()> {
        say("intents");
        let shown = show(&mut full.http).await?;
        let logical = shown["functions"][0]["logical_id"].as_str().context("the function has no id")?;
        let [intent, answers] = ["", "answer:"].map(|of| format!("intent:{of}migrate:{logical}"));
        let instance = format!("instance:{logical}");
        let mut took = Vec::new();
        for round in 1..=INTENTS {
            let end = Instant::now() + PREPARATION;
            // The move before has ended at the other node, too.
            let from = loop {
                if let Some(node) = settled(&show(&mut full.http).await?) {
                    break node.to_owned();
                }
                ensure!(Instant::now() < end, "the function never runs");
                sleep(Duration::from_millis(5)).await;
            };
            let to = full.nodes.iter().find(|node| **node != from).context("another node")?;
            let is_there = format!("InstanceId(node_id: {to},");
            let began = Instant::now();
            cmd("SET").arg(&intent).arg(to).query_async::<()>(&mut full.redis).await?;
            cmd("RPUSH").arg("intents").arg(&intent).query_async::<()>(&mut full.redis).await?;
            loop {
                let mut look = Pipeline::new();
                look.cmd("LRANGE").arg(&answers).arg(0).arg(-1).cmd("GET").arg(&instance);
                let (all, text): (Vec<String>, Option<String>) = look.query_async(&mut full.redis).await?;
                if let Some(newest) = all.first().filter(|_| all.len() == round) {
                    ensure!(newest.contains("\"accepted\":true"), "{newest}");
                    if text.is_some_and(|text| text.contains(&is_there)) {
                        break;
                    }
                }
                ensure!(Instant::now() < end, "the function never moves");
                sleep(Duration::from_millis(1)).await;
            }
            took.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let (moved, longest) = (median(&took), took.iter().copied().fold(0.0, f64::max));
        self.table.limit(
            "an intent in Redis, until its function runs on another node that has its version",
            &format!("{moved:.0} ms, {longest:.0} ms at most"),
            moved / MOVED_MS,
            &format!("≤ {MOVED_MS} ms"),
        );
        Ok(())
    }

    /// Polls, with a mirror and without, while a node changes again and again.
    async fn mirrored_polls(&mut self) -> anyhow::Result<()> {
        say("POST /poll with a mirror");
        let processors = self.processors.clone();
        let cpus = processors.apart();
        // It runs where the load is made: as a rule it is on another machine than the manager.
        let redis = Redis::start().await;
        let (off, off_node, _) = self.polled("polls.db", cpus, None).await?;
        let (on, on_node, callers) = self.polled("polls-mirrored.db", cpus, Some(redis.url())).await?;
        let requests = Arc::new(bodies::polls(&callers));
        let work = Work::Each { cursor: Cursor::wrapping(requests.len()), requests };
        let [mut without, mut with] = [Side::default(), Side::default()];
        for round in 0..=self.sizes.rounds {
            for (server, node, side) in [(&off, &off_node, &mut without), (&on, &on_node, &mut with)] {
                let changing = change(server.address, node.clone());
                let outcome = load::run(&self.load(server, work.clone(), self.sizes.round))?;
                ensure!(changing.end()? > 0, "no node has changed");
                // The first one counts for nothing.
                if round > 0 {
                    side.add(outcome.per_second(), &outcome.latency);
                }
            }
        }
        let key = format!("node:capabilities:{on_node}");
        let is_mirrored: bool = cmd("EXISTS").arg(key).query_async(&mut redis.client().await).await?;
        ensure!(is_mirrored, "the mirror has no node");
        let what = format!("`POST /poll` with a mirror, while a node changes {PACE} times a second");
        self.table.compare(&what, &with, "without", &without, Target::P99(1.1));
        processors.together();
        [on, off].into_iter().try_for_each(Server::stop)
    }

    /// A server whose children poll, and the id of a node there.
    async fn polled(
        &self,
        name: &str,
        cpus: Option<&str>,
        mirror: Option<String>,
    ) -> anyhow::Result<(Server, String, Vec<Caller>)> {
        let store = self.sqlite(name);
        let callers = fill::children(&store, self.sizes.children).await?;
        let above = Above { mirror, is_patient: true, ..Above::ALONE };
        let server = ready(Server::with(&store, cpus, &above)?)?;
        let node = Node::register(server.address, 0).await?;
        Ok((server, node.id, callers))
    }

    /// A manager that waits for intents while nothing happens.
    async fn at_rest(&mut self) -> anyhow::Result<()> {
        say("a manager at rest, with a mirror");
        let redis = Redis::start().await;
        let above = Above { mirror: Some(redis.url()), ..Above::ALONE };
        let on = Server::with(&self.sqlite("rest-mirrored.db"), None, &above)?;
        let off = Server::ours(&self.sqlite("rest.db"), None)?;
        let (mut client, end) = (redis.client().await, Instant::now() + PREPARATION);
        while !cmd("CLIENT").arg("LIST").query_async::<String>(&mut client).await?.contains("cmd=blmove") {
            ensure!(Instant::now() < end, "the manager never waits for intents");
            sleep(Duration::from_millis(10)).await;
        }
        // What a start takes is over.
        sleep(self.sizes.round).await;
        let (before, began) = ([on.cpu()?, off.cpu()?], Instant::now());
        sleep(self.sizes.round * REST).await;
        let seconds = began.elapsed().as_secs_f64();
        let after = [on.cpu()?, off.cpu()?];
        let [with, without] = [0, 1].map(|at| after[at].saturating_sub(before[at]).as_secs_f64() / seconds);
        self.table.line(
            "a manager at rest, which has a mirror and waits for intents",
            &format!("{:.3} % of a processor", with * 100.0),
            &format!("without: {:.3} %", without * 100.0),
            "",
            &format!("≤ {} % of a processor", REST_SHARE * 100.0),
            Some(with <= REST_SHARE),
        );
        [on, off].into_iter().try_for_each(Server::stop)
    }
}

/// A manager with as many functions as are mirrored, and what is connected to it.
struct Full {
    server: Server,
    http: Connection,
    /// The ids of nodes.
    nodes: Vec<String>,
    calls: JoinSet<anyhow::Result<()>>,
    redis: MultiplexedConnection,
    _redis_server: Redis,
}

impl Full {
    async fn start(bench: &Bench) -> anyhow::Result<Self> {
        let functions = bench.sizes.placed_functions;
        say(&format!("starting {functions} functions for the mirror"));
        let redis = Redis::start().await;
        let above = Above { mirror: Some(redis.url()), is_patient: true, ..Above::ALONE };
        let server = Server::with(&bench.sqlite("mirror.db"), None, &above)?;
        let (mut nodes, mut counts, mut calls) = (Vec::new(), Vec::new(), JoinSet::new());
        for at in 0..functions / OF_NODE {
            let node = Node::register(server.address, at).await?;
            nodes.push(node.id.clone());
            counts.push(Arc::clone(&node.running));
            calls.spawn(node.run(Arc::default()));
        }
        let run = || counts.iter().map(|of_node| of_node.load(Ordering::Relaxed)).sum::<usize>();
        for at in 1..=functions / OF_WORKFLOW {
            start(server.address, &format!("w{at}"), OF_WORKFLOW).await?;
            until(|| run() == at * OF_WORKFLOW).await?;
        }
        start(server.address, MOVED, 1).await?;
        until(|| run() == functions + 1).await?;
        let http = Connection::open(server.address).await?;
        Ok(Self { server, http, nodes, calls, redis: redis.client().await, _redis_server: redis })
    }

    fn stop(self) -> anyhow::Result<()> {
        let Self { server, mut calls, .. } = self;
        if let Some(ended) = calls.try_join_next() {
            ended?.context("a node was cut off")?;
        }
        drop(calls);
        server.stop()
    }
}

fn is_installed() -> bool {
    let program = std::env::var_os("CHOIRMASTER_TEST_REDIS").unwrap_or_else(|| "redis-server".into());
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Until there are so many keys.
async fn until_there(redis: &mut MultiplexedConnection, keys: usize) -> anyhow::Result<()> {
    let end = Instant::now() + PREPARATION;
    loop {
        let found: usize = cmd("DBSIZE").query_async(redis).await?;
        if found >= keys {
            return Ok(());
        }
        ensure!(Instant::now() < end, "the mirror has {found} keys of {keys}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// The workflow of which a function moves.
async fn show(http: &mut Connection) -> anyhow::Result<Value> {
    let request = bodies::get(&format!("/api/v1/workflows/{MOVED}"));
    Ok(serde_json::from_slice(http.call(request.as_bytes()).await?)?)
}

fn cordon(node: &str, is_cordoned: bool) -> String {
    let call = if is_cordoned { "cordon" } else { "uncordon" };
    bodies::post(&format!("/api/v1/children/{node}/{call}"), bodies::JSON, "{}")
}

/// Changes a node again and again.
fn change(address: SocketAddr, node: String) -> Beside {
    Beside::start(async move |ended: Arc<AtomicBool>| {
        let mut connection = Connection::open(address).await?;
        let mut ticks = interval(Duration::from_millis(1_000 / PACE));
        let mut done = 0;
        while !ended.load(Ordering::Relaxed) {
            ticks.tick().await;
            connection.call(cordon(&node, done % 2 == 0).as_bytes()).await?;
            done += 1;
        }
        Ok(done)
    })
}
