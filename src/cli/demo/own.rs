//! Real functions on real agents, called all the while: a release that is good, and one that is bad. No call may be lost in either.

mod agents;
mod callers;
mod functions;
mod shop;

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent::control::{
    CARRY_OUT,
    form::{Added, NewFunction, Retry, Status},
};
use bytes::Bytes;
use reqwest::Method;
use tokio::time::{Instant, sleep};

use self::{
    agents::{AGENTS, Agents},
    callers::{Callers, Tally},
    functions::{FUNCTIONS, Function, OwnRelease, releases},
    shop::Shop,
};
use super::{
    limits::CHILDREN_LIMIT,
    screen::{FinishedRelease, LOOK_EVERY, Screen},
    unless_ended,
};
use crate::{
    app::{self, Options},
    cli::{
        client::{Client, Connection},
        failure::Failure,
    },
};
use protocol::api::{Child, Release};

/// How many releases there are.
pub const RELEASES: usize = functions::RELEASES + shop::RELEASES;

/// The agents have this long until their proxies answer and the manager knows them.
const STANDING_LIMIT: Duration = Duration::from_mins(1);

/// The line of a proxy's metrics that says how often a version failed a call that the base version was given then.
const REPEATS: &str = "choirmaster_proxy_repeats_total{";

/// The versions that were served before any release, by function.
type Served = BTreeMap<&'static str, String>;

/// What became of this part of the demo.
#[derive(Debug)]
pub struct DemoResult {
    pub ended: Vec<FinishedRelease>,
    calls: Arc<Tally>,
    /// Calls that a new version failed, and the base version was given.
    repeated: u64,
}

impl DemoResult {
    /// None was lost, and there were those that could have been.
    pub fn no_call_was_lost(&self) -> bool {
        self.calls.lost() == 0 && self.repeated > 0 && self.calls.by_new() > 0
    }

    /// What became of the calls, in words.
    pub fn summary(&self) -> String {
        let (made, lost) = (self.calls.made(), self.calls.lost());
        let why = self.calls.first_loss().map(|why| format!("\nthe first one that was lost: {why}"));
        format!(
            "the real agents were called {made} times, and {lost} of the calls were lost;\n\
             {} were answered by versions that were tried, and {} that such a\n\
             version failed were repeated on the base version{}",
            self.calls.by_new(),
            self.repeated,
            why.unwrap_or_default()
        )
    }
}

/// Plays both releases and ends all that it started.
pub async fn play(functions: &Path, out: &mut impl Write) -> Result<DemoResult, Failure> {
    // The agents run in other folders.
    let functions = &functions.canonicalize()?;
    let store = format!("sqlite://{}", functions.join("own.db").display());
    let manager = app::start(Options::local(store, functions.to_owned())).await?;
    let played = play_below(&format!("http://{}", manager.address), functions, out).await;
    manager.stop().await?;
    played
}

async fn play_below(manager: &str, functions: &Path, out: &mut impl Write) -> Result<DemoResult, Failure> {
    let agents = Agents::start(manager)?;
    let stage = OwnStage { agents: &agents, client: connect(manager)?, functions };
    let played = unless_ended(stage.play(out)).await;
    let stopped = agents.stop().await;
    let played = played?;
    stopped?;
    Ok(played)
}

fn connect(manager: &str) -> Result<Client, Failure> {
    Client::new(&Connection::to(manager))
}

/// Where it takes place.
struct OwnStage<'a> {
    agents: &'a Agents,
    client: Client,
    /// The folder that contains `fns/`.
    functions: &'a Path,
}

impl OwnStage<'_> {
    async fn play(&self, out: &mut impl Write) -> Result<DemoResult, Failure> {
        let mut screen = Screen::new(std::io::stdout().is_terminal());
        writeln!(
            out,
            "\nA manager with {AGENTS} REAL agents, each with a proxy: functions run as\n\
             processes, and are called all the while. The manager listens on\n{}\n",
            self.client.base()
        )?;
        self.stand(&mut screen, out).await?;
        let functions = self.runnable(out).await?;
        let (served, called) = self.serve(&functions, &mut screen, out).await?;
        let mut callers = Callers::start(&called)?;
        let mut ended = Vec::new();
        for release in releases(&functions) {
            writeln!(out, "{}/{RELEASES} {}: {}", ended.len() + 1, release.id, release.story)?;
            ended.push(self.play_one(&release, &served, &mut screen, out).await?);
        }
        let shop = Shop::open().await?;
        writeln!(out, "\nThe same agents as routers of a service that somebody else runs:\n")?;
        for release in shop.releases(self.agents.service_port()) {
            writeln!(out, "{}/{RELEASES} {}: {}", ended.len() + 1, release.id, release.story)?;
            ended.push(self.play_shop(&release, &mut callers, &mut screen, out).await?);
        }
        let calls = callers.finish().await?;
        Ok(DemoResult { ended, calls, repeated: self.repeated().await? })
    }

    /// Waits until the manager knows all agents, and their proxies answer.
    async fn stand(&self, screen: &mut Screen, out: &mut impl Write) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            let known: (Vec<Child>, bool) = self.client.list(&["api", "v1", "children"], &[], AGENTS).await?;
            let statuses = self.statuses().await;
            let answer = statuses.iter().filter(|status| status.is_led()).count();
            let ready = answer.min(known.0.len());
            screen.show(&format!("{ready} of {AGENTS} agents have registered"), out)?;
            if ready >= AGENTS {
                return screen.keep(out);
            }
            if started.elapsed() > STANDING_LIMIT {
                let logs: Vec<String> = self.agents.all().iter().map(agents::Agent::tail).collect();
                return Err(Failure::ours(format!("the agents did not all register\n{}", logs.join("\n"))));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Those that answer.
    async fn statuses(&self) -> Vec<Status> {
        statuses(self.agents).await
    }

    /// The functions that all agents can run; says which can't.
    async fn runnable(&self, out: &mut impl Write) -> Result<Vec<Function>, Failure> {
        let statuses = self.statuses().await;
        let runs = |env: &str, status: &Status| {
            status.runtimes.iter().any(|runtime| runtime.runners.iter().any(|runner| runner == env))
        };
        let (can, cannot): (Vec<Function>, Vec<Function>) =
            FUNCTIONS.iter().partition(|function| statuses.iter().all(|status| runs(function.env, status)));
        for function in cannot {
            writeln!(out, "    {} is left out: this machine has no {}", function.name, function.needs)?;
        }
        Ok(can)
    }

    /// Has each agent serve the base version of each function. Gives their digests, and where each function is called.
    async fn serve(
        &self,
        functions: &[Function],
        screen: &mut Screen,
        out: &mut impl Write,
    ) -> Result<(Served, Vec<(Function, Vec<String>)>), Failure> {
        let (mut served, mut called) = (Served::new(), Vec::new());
        for function in functions {
            let mut addresses = Vec::new();
            for agent in self.agents.all() {
                screen.show(&format!("{} ({}) is started", function.name, function.env), out)?;
                let new = NewFunction {
                    folder: self.functions.join(function.base),
                    runner: Some(function.env.to_owned()),
                    sticky: None,
                    retry: Some(Retry::Failed),
                };
                let body = serde_json::to_vec(&new).map_err(|error| Failure::ours(error.to_string()))?;
                let target = format!("/functions/{}", function.name);
                let time_limit = CARRY_OUT + CARRY_OUT / 10;
                let added: Added =
                    agent.client().ask(Method::PUT, &target, Bytes::from(body), time_limit).await?;
                addresses.extend(added.at.into_iter().next());
                served.insert(function.name, added.version);
            }
            called.push((*function, addresses));
        }
        let names: Vec<_> = functions.iter().map(|function| function.name).collect();
        screen.show(&format!("served by both: {}", names.join(", ")), out)?;
        screen.keep(out)?;
        Ok((served, called))
    }

    async fn play_one(
        &self,
        release: &OwnRelease,
        served: &Served,
        screen: &mut Screen,
        out: &mut impl Write,
    ) -> Result<FinishedRelease, Failure> {
        // What is stable before it is what the agents are to come back to.
        let before = self.stable(served).await;
        let running = AtomicUsize::new(0);
        let (followed, took) = {
            let shown = || running.load(Ordering::Relaxed);
            let follow = screen.follow(&self.client, &release.text, shown, out);
            tokio::select! {
                followed = follow => followed?,
                never = self.watch(release, &before, &running) => match never {},
            }
        };
        let serves = |status: &Status, is_base| serves_alone(status, release, &before, is_base);
        let (new_at, base_at) = self.settled(release.is_good, serves).await;
        screen.ended(&followed, new_at, base_at, out)?;
        let wrong = wrong(release.is_good, &followed, new_at, base_at);
        Ok(FinishedRelease::of(followed, (new_at, base_at), took, wrong))
    }

    /// What is stable at the agents, by function.
    async fn stable(&self, served: &Served) -> Served {
        let statuses = self.statuses().await;
        let now = |name: &str| {
            let functions = statuses.iter().flat_map(|status| &status.functions);
            functions.into_iter().find(|function| function.name == name).map(|f| f.stable.version.clone())
        };
        served.iter().map(|(name, first)| (*name, now(name).unwrap_or_else(|| first.clone()))).collect()
    }

    /// Notes how many agents run a new version, for as long as it is asked.
    async fn watch(
        &self,
        release: &OwnRelease,
        before: &Served,
        running: &AtomicUsize,
    ) -> std::convert::Infallible {
        loop {
            let statuses = self.statuses().await;
            let new = statuses.iter().filter(|status| runs_new(status, release, before)).count();
            running.store(new, Ordering::Relaxed);
            sleep(LOOK_EVERY).await;
        }
    }

    /// Agents at which all functions of a release are served by the new version alone, and by the base version alone: once that is
    /// what it should be, or they had time enough.
    async fn settled(&self, is_good: bool, serves_alone: impl Fn(&Status, bool) -> bool) -> (usize, usize) {
        let wanted = if is_good { (AGENTS, 0) } else { (0, AGENTS) };
        let deadline = Instant::now() + CHILDREN_LIMIT;
        loop {
            let statuses = self.statuses().await;
            let at = |is_base: bool| statuses.iter().filter(|status| serves_alone(status, is_base)).count();
            let found = (at(false), at(true));
            if found == wanted || Instant::now() > deadline {
                return found;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Calls that were repeated on the base version, as the proxies counted them.
    async fn repeated(&self) -> Result<u64, Failure> {
        let mut all = 0;
        for agent in self.agents.all() {
            let text = agent.proxy().text("/metrics").await?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines = text.lines().filter(|line| line.starts_with(REPEATS));
            all += lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>();
        }
        Ok(all)
    }
}

async fn statuses(agents: &Agents) -> Vec<Status> {
    let mut found = Vec::new();
    for agent in agents.all() {
        found.extend(agent.status().await);
    }
    found
}

/// Whether an agent runs a new version of a function of a release, tried or rolled out.
fn runs_new(status: &Status, release: &OwnRelease, before: &Served) -> bool {
    let of_release = status.functions.iter().filter(|one| release.functions.contains(&one.name.as_str()));
    let mut new = of_release
        .filter(|one| one.candidate.is_some() || before.get(one.name.as_str()) != Some(&one.stable.version));
    new.next().is_some()
}

/// Whether an agent tries nothing of a release, and serves what was there before, or what was not.
fn serves_alone(status: &Status, release: &OwnRelease, before: &Served, is_base: bool) -> bool {
    release.functions.iter().all(|name| {
        let found = status.functions.iter().find(|one| one.name == *name);
        found.is_some_and(|one| {
            one.candidate.is_none() && (before.get(name) == Some(&one.stable.version)) == is_base
        })
    })
}

/// What a release should have come to, if it came to something else.
fn wrong(is_good: bool, release: &Release, new_at: usize, base_at: usize) -> Option<String> {
    let (counts, all) = (&release.counts, AGENTS as u32);
    let (is_right, wanted) = if is_good {
        (release.state == "Done" && counts.succeeded == all && new_at == AGENTS, "rolled out")
    } else {
        let is_right = release.state == "DoneWithFailures" && counts.failed == all && base_at == AGENTS;
        (is_right, "failed and taken back")
    };
    (!is_right).then(|| format!("NOT AS IT SHOULD: {wanted} at both agents"))
}
