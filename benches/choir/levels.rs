//! How long a barrier takes across levels: from the last child's success to the next stage's offer at the leaves.
//!
//! A root, two managers below it, two below each of those, each a process of its own on an embedded store; agents that
//! all take the same few seconds for a stage, and wait with long polls themselves, so that only what managers do is
//! measured. Every stage ends at a barrier over the whole tree. Once with long polls between managers, and once where
//! those above the lowest let nobody wait, so that all polls of managers are plain ones.

use std::{collections::BTreeMap, fmt::Write as _, net::SocketAddr, time::Duration};

use anyhow::{Context as _, ensure};
use simulated_children::Offer;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bodies,
    load::Connection,
    rows::{Bench, say},
    server::{Above, Server},
    shared::figures::median,
};

/// Managers below the root, and below each of those.
const BRANCHES: usize = 2;

/// Agents below each of the lowest managers.
const AGENTS: usize = 5;

/// Between two polls of a manager at the one above it, as managers are configured from the start.
pub const POLL: Duration = Duration::from_secs(3);

/// The release, and so the start of the ids of its offers.
const RELEASE: &str = "levels";

/// Everybody is known to the root after this time, and every barrier opens.
const PATIENCE: Duration = Duration::from_mins(5);

/// Shortest stage. A manager begins no two polls within [`POLL`], so that shorter stages would measure that.
const STAGE: Duration = Duration::from_millis(3_500);

/// Each stage takes this much longer than the one before, within [`POLL`], so that success comes at another moment
/// between two polls each time.
const LATER: Duration = Duration::from_millis(1_370);

/// Between two looks at what the root knows.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What an agent tells of itself.
enum Told {
    /// It has shown success in the stage of this number, from 0.
    Succeeded(usize),
    /// It was offered the stage of this number.
    Offered(usize),
}

impl Bench {
    pub(crate) async fn across_levels(&mut self) -> anyhow::Result<()> {
        let barriers = if self.sizes.rounds > 1 { 7 } else { 2 };
        let long = self.barriers(barriers, true).await?;
        let plain = self.barriers(barriers, false).await?;
        let ms = |times: &[f64]| {
            let (least, most) = times.iter().fold((f64::MAX, 0.0_f64), |(a, b), ms| (a.min(*ms), b.max(*ms)));
            format!("{:.0} ms ({least:.0} to {most:.0})", median(times))
        };
        self.table.line(
            &format!(
                "last success to the next stage's offer at all {} leaves of three levels, {barriers} barriers",
                BRANCHES * BRANCHES * AGENTS
            ),
            &format!("long polls: {}", ms(&long)),
            &format!("plain polls every {} s: {}", POLL.as_secs(), ms(&plain)),
            &format!("{:.1} times as fast", median(&plain) / median(&long)),
            "",
            None,
        );
        Ok(())
    }

    /// Milliseconds of each barrier.
    async fn barriers(&self, count: usize, long_polls: bool) -> anyhow::Result<Vec<f64>> {
        say(&format!("barriers across three levels, {} polls", if long_polls { "long" } else { "plain" }));
        let store = |name: &str| self.sqlite(&format!("levels-{long_polls}-{name}.db"));
        let root = Server::in_tree(&store("root"), &Above { lets_wait: long_polls, ..Above::ALONE })?;
        let (mut inner, mut lowest) = (Vec::new(), Vec::new());
        for branch in 0..BRANCHES {
            let above = Above { parent: Some(root.address), lets_wait: long_polls, ..Above::ALONE };
            let middle = Server::in_tree(&store(&branch.to_string()), &above)?;
            for leaf in 0..BRANCHES {
                let above = Above { parent: Some(middle.address), ..Above::ALONE };
                lowest.push(Server::in_tree(&store(&format!("{branch}-{leaf}")), &above)?);
            }
            inner.push(middle);
        }
        let addresses: Vec<SocketAddr> = lowest.iter().map(|server| server.address).collect();
        let times = timeout(PATIENCE, measure(root.address, &addresses, count)).await;
        lowest.into_iter().chain(inner).chain([root]).try_for_each(Server::stop)?;
        times.context("the barriers took too long")?
    }
}

async fn measure(root: SocketAddr, lowest: &[SocketAddr], barriers: usize) -> anyhow::Result<Vec<f64>> {
    let (reporter, mut told) = mpsc::unbounded_channel();
    let mut agents = JoinSet::new();
    let count = lowest.len() * AGENTS;
    for index in 0..count {
        let agent = Agent::new(lowest[index / AGENTS], index).await?;
        agents.spawn(agent.run(barriers + 1, reporter.clone()));
    }
    known(root, count).await?;
    submit(root, barriers + 1).await?;
    let mut succeeded: BTreeMap<usize, Vec<Instant>> = BTreeMap::new();
    let mut offered = succeeded.clone();
    while offered.get(&barriers).is_none_or(|times| times.len() < count) {
        tokio::select! {
            what = told.recv() => match what.context("the agents are gone")? {
                Told::Succeeded(stage) => succeeded.entry(stage).or_default().push(Instant::now()),
                Told::Offered(stage) => offered.entry(stage).or_default().push(Instant::now()),
            },
            Some(ended) = agents.join_next() => ended??,
        }
    }
    agents.shutdown().await;
    let last = |of: &BTreeMap<usize, Vec<Instant>>, stage| {
        of.get(&stage).filter(|times| times.len() == count).and_then(|times| times.iter().max().copied())
    };
    (0..barriers)
        .map(|stage| {
            let success = last(&succeeded, stage).context("not every agent has succeeded")?;
            let offer = last(&offered, stage + 1).context("not every agent was offered the next stage")?;
            Ok((offer - success).as_secs_f64() * 1_000.0)
        })
        .collect()
}

/// Waits until the root knows of that many agents.
async fn known(root: SocketAddr, agents: usize) -> anyhow::Result<()> {
    let mut connection = Connection::open(root).await?;
    let request = bodies::get("/api/v1/children?kind=rm");
    loop {
        let children: serde_json::Value = serde_json::from_slice(connection.call(request.as_bytes()).await?)?;
        let below = |child: &serde_json::Value| child["agents"].as_u64().unwrap_or_default();
        let sum: u64 = children["items"].as_array().into_iter().flatten().map(below).sum();
        if sum == agents as u64 {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Stages without conditions, each behind a barrier over the whole tree.
fn strategy(stages: usize) -> String {
    let mut text = format!(
        "id: {RELEASE}\nname: Barriers\ntype: patch\nfunctions:\n  - name: sieve\n    base_version:\n      path: \
         fns/sieve_base\n      env: nodejs\n    new_version:\n      path: fns/sieve_new\n      env: nodejs\nrollout:\n  \
         order: global_incremental\nstages:\n"
    );
    for stage in 0..stages {
        let next = if stage + 1 == stages { "rollout".to_owned() } else { name_of(stage + 1) };
        let _ = write!(
            text,
            "  - name: {}\n    type: WaitForSignal\n    func_name: sieve\n    variants:\n      - name: base_version\n        \
             trafficPercentage: 50\n      - name: new_version\n        trafficPercentage: 50\n    metrics_conditions:\n      \
             - name: errorRate\n        threshold: \"<0.5\"\n    end_conditions:\n      - name: minDuration\n        \
             threshold: 1s\n    end_action:\n      onSuccess: {next}\n      onFailure: rollback\n",
            name_of(stage)
        );
    }
    text + "rollback:\n  action:\n    function: base_version\n"
}

fn name_of(stage: usize) -> String {
    format!("Stage {stage}")
}

async fn submit(root: SocketAddr, stages: usize) -> anyhow::Result<()> {
    let request = bodies::post("/release", "application/yaml", &strategy(stages));
    let mut connection = Connection::open(root).await?;
    let (status, ..) = connection.exchange(request.as_bytes()).await?;
    ensure!((200..300).contains(&status), "the release was answered {status}");
    Ok(())
}

/// How long a stage takes at every agent.
fn takes(stage: usize) -> Duration {
    let later = (LATER.as_millis() as u64 * stage as u64) % POLL.as_millis() as u64;
    STAGE + Duration::from_millis(later)
}

/// An agent that takes no time for anything but its stages.
struct Agent {
    connection: Connection,
    index: usize,
    id: String,
}

impl Agent {
    /// Registers, and calls again, so that it is no ghost.
    async fn new(manager: SocketAddr, index: usize) -> anyhow::Result<Self> {
        let mut agent = Self { connection: Connection::open(manager).await?, index, id: String::new() };
        for _ in 0..2 {
            agent.poll("/poll").await?;
        }
        Ok(agent)
    }

    async fn poll(&mut self, path: &str) -> anyhow::Result<String> {
        let request = bodies::poll_at(path, &self.id, self.index);
        let answer: serde_json::Value =
            serde_json::from_slice(self.connection.call(request.as_bytes()).await?)?;
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        self.id = text("id");
        Ok(text("new_release"))
    }

    /// Runs stages until it has shown success in so many.
    async fn run(mut self, stages: usize, told: mpsc::UnboundedSender<Told>) -> anyhow::Result<()> {
        let mut run = 0;
        while run < stages {
            let id = self.poll("/poll?wait=30s").await?;
            if id.is_empty() {
                continue;
            }
            told.send(Told::Offered(run))?;
            let request = bodies::get(&format!("/release?childID={}&releaseID={id}", self.id));
            let offer = Offer::read(std::str::from_utf8(self.connection.call(request.as_bytes()).await?)?)?;
            let stage = offer.stages.first().context("an offer without stages")?.name.clone();
            sleep(takes(run)).await;
            self.report(&offer.id, &stage, 2).await?;
            told.send(Told::Succeeded(run))?;
            let body = format!(
                "{{\"id\":\"{}\",\"strategy_id\":\"{}\",\"stage_name\":\"{stage}\"}}",
                self.id, offer.id
            );
            let question = bodies::post("/end_stage?wait=30s", bodies::JSON, &body);
            loop {
                let answer = self.connection.call(question.as_bytes()).await?;
                if serde_json::from_slice::<serde_json::Value>(answer)?["end_stage"] == true {
                    break;
                }
            }
            self.report(&offer.id, &stage, 4).await?;
            run += 1;
        }
        Ok(())
    }

    async fn report(&mut self, offer: &str, stage: &str, status: u8) -> anyhow::Result<()> {
        let body = bodies::result(&self.id, self.index, offer, stage, status);
        self.connection.call(bodies::post("/result", bodies::JSON, &body).as_bytes()).await?;
        Ok(())
    }
}
