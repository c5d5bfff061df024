//! `choirmaster fleet`: simulated children against a running manager, or below a tree of managers of its own.

mod tree;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{IsTerminal, Write},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{failure::Failure, show};
use simulated_children::{
    AgentReport, Behaviour, BoundingBox, CallClock, Faults, FleetConfig, FleetKind, FleetReport, Latency,
    Progress, Traffic,
};

/// Exit code when the manager answered nothing at all.
const NOT_REACHED: u8 = 1;

/// Run simulated children against a release manager, or a whole tree of managers with children.
///
/// Nothing real is run: the children poll, download and report as agents do, and the calls they report on are drawn
/// at random from --seed. Durations are as 3s, 500ms, 1m30s; shares as 0.1% or 0.001.
#[derive(Debug, Clone, clap::Args)]
pub struct FleetArgs {
    /// Address of the manager [env: CHOIRMASTER_URL] [default: http://127.0.0.1:9991]
    // The variable is read by hand: it is no choice of this call's, so it doesn't speak against --tree.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// How many children
    #[arg(long, value_name = "N", default_value_t = 20)]
    agents: usize,
    /// `deployed` imitates the agents that are out there, faults and all; `modern` uses the newer additions; `own` takes whole
    /// strategies besides, and changes shares in place
    #[arg(long, value_enum, default_value_t = FleetKind::Deployed)]
    kind: FleetKind,
    /// All that is random follows from it
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Between two polls of a child
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    poll: Duration,
    /// Real seconds in a second of the children's clocks: 0.1 lets everything they do run ten times as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pace: f64,
    /// What a child takes to set up the versions of an offer
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    setup: Duration,
    /// What a child takes for a roll-out or a roll-back
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    cleanup: Duration,
    /// Simulated calls at each child
    #[arg(long, value_name = "RATE", default_value_t = 200.0)]
    calls_per_second: f64,
    /// Times of calls: constant:8ms, uniform:5ms,9ms or lognormal:MEDIAN,SIGMA
    #[arg(long, value_name = "SHAPE", default_value = "lognormal:8ms,0.3")]
    latency: Latency,
    /// The same for new versions, if it differs
    #[arg(long, value_name = "SHAPE")]
    new_latency: Option<Latency>,
    /// Share of calls that fail
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    errors: f64,
    /// The same for new versions, if it differs
    #[arg(long, value_name = "SHARE", value_parser = share)]
    new_errors: Option<f64>,
    /// Versions whose path contains this text are bad
    #[arg(long, value_name = "TEXT", default_value = "broken")]
    bad_path: Option<String>,
    /// Share of calls to bad versions that fail
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    bad_errors: f64,
    /// Times of calls to bad versions, if they differ
    #[arg(long, value_name = "SHAPE")]
    bad_latency: Option<Latency>,
    /// Box in which the children lie, in degrees
    #[arg(long, value_name = "W,S,E,N", default_value = "13.3,52.4,13.6,52.6", allow_hyphen_values = true)]
    spread: BoundingBox,
    /// Chance that a child dies instead of making a call
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    crash: f64,
    /// How long a dead child takes to come back
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    restart_after: Duration,
    /// Share of children that lose the answer to their first poll
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    lose_first_answer: f64,
    /// Chance that a deployed agent with stages left exits after a roll-back instead of walking on
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    exit_after_rollback: f64,
    /// How long modern children let the manager wait with an answer; 0s: they ask again and again
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    wait: Duration,
    /// Step of the clock by which modern children time calls: 1us, 1ms, or 1ms,down for one that cuts off the rest
    #[arg(long, value_name = "STEP", default_value = "1us")]
    clock: CallClock,
    /// Calls of a session at modern children: all of one go to one version and are alike, as where users stick to a version
    #[arg(long, value_name = "N", default_value_t = 1)]
    session_calls: u32,
    /// A runtime that modern children report (repeatable)
    #[arg(long = "runtime", value_name = "NAME")]
    runtimes: Vec<String>,
    /// A label that modern children report (repeatable)
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    run_for: Option<Duration>,
    /// End when, after at least one release, no child has run anything for N seconds
    #[arg(long, value_name = "N")]
    until_idle: Option<u64>,
    /// Print the whole report as JSON at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tree: tree::TreeArgs,
}

/// Where a manager listens unless it is told otherwise.
const USUAL_ADDRESS: &str = "http://127.0.0.1:9991";

impl FleetArgs {
    /// Where its manager is.
    fn address(&self) -> String {
        let variable = || std::env::var("CHOIRMASTER_URL").ok().filter(|url| !url.is_empty());
        self.url.clone().or_else(variable).unwrap_or_else(|| USUAL_ADDRESS.to_owned())
    }

    /// The fleet that these flags describe.
    pub fn config(&self) -> FleetConfig {
        let base = Behaviour { latency: self.latency, errors: self.errors };
        FleetConfig {
            url: self.address(),
            agents: self.agents,
            kind: self.kind,
            seed: self.seed,
            poll: self.poll,
            pace: self.pace,
            setup: self.setup,
            cleanup: self.cleanup,
            traffic: Traffic {
                calls_per_second: self.calls_per_second,
                base,
                new: Behaviour {
                    latency: self.new_latency.unwrap_or(self.latency),
                    errors: self.new_errors.unwrap_or(self.errors),
                },
                bad: Behaviour { latency: self.bad_latency.unwrap_or(self.latency), errors: self.bad_errors },
                bad_path: self.bad_path.clone(),
            },
            spread: self.spread,
            faults: Faults {
                crash: self.crash,
                restart_after: self.restart_after,
                lose_first_answer: self.lose_first_answer,
                exit_after_rollback: self.exit_after_rollback,
            },
            wait: self.wait,
            clock: self.clock,
            session_calls: self.session_calls,
            runtimes: self.runtimes.clone(),
            labels: self.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
            run_for: self.run_for,
            until_idle: self.until_idle.map(Duration::from_secs),
        }
    }
}

/// Runs the command, for one fleet or for a tree.
pub async fn run(args: &FleetArgs, out: &mut impl Write) -> Result<u8, Failure> {
    match args.tree_config() {
        Some(config) => tree::run(args, config, out).await,
        None => Ok(run_flat(args).await?),
    }
}

/// Runs the children of one manager. The exit code is 0 if the manager answered at least once.
async fn run_flat(args: &FleetArgs) -> anyhow::Result<u8> {
    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    let signal = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            on_signal.cancel();
        }
    });
    // The report goes to stdout, everything about its making to stderr.
    let mut err = std::io::stderr();
    let (agents, seed) = (args.agents as u64, args.seed);
    let children = show::counted(agents, "SIMULATED child", "SIMULATED children");
    let poll = if agents == 1 { "polls" } else { "poll" };
    writeln!(err, "{children} (seed {seed}) {poll} {}", args.address())?;
    let live = err.is_terminal();
    let report = simulated_children::run(args.config(), stop, |progress| {
        if live {
            // A terminal that went away is no reason to stop the fleet.
            write!(std::io::stderr(), "\r\x1b[K{}", line(progress)).ok();
        }
    })
    .await;
    signal.abort();
    if live {
        writeln!(err)?;
    }
    let report = report?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", summary(&report))?;
    }
    if report.reached {
        return Ok(0);
    }
    writeln!(err, "no call was answered: is a release manager listening at {}?", args.address())?;
    Ok(NOT_REACHED)
}

fn line(progress: &Progress) -> String {
    let Progress { polling, running, done, rolled_out, exited, .. } = progress;
    format!(
        "simulated: {polling} polling, {running} running, {done} done, {rolled_out} rolled out, {exited} exited"
    )
}

/// The end of a run, for people.
pub fn summary(report: &FleetReport) -> String {
    let totals = &report.totals;
    let mut text = format!(
        "{}\n{} calls to the manager, {} of them polls; {} unanswered, {} refused; {} offers run\n",
        line(totals),
        totals.calls,
        totals.polls,
        totals.calls - totals.answers,
        totals.refusals,
        totals.offers_run,
    );
    text.extend(report.last_error.iter().map(|why| format!("the last unanswered call: {why}\n")));
    let without = report.without_service();
    if without > 0.0 {
        let _ = writeln!(text, "callers got errors or nothing for {without:.1} s of the children's time");
    }
    text + &exits(&report.agents)
}

/// Why agents are gone, and how many for each reason.
fn exits<'a>(agents: impl IntoIterator<Item = &'a AgentReport>) -> String {
    let mut exits: BTreeMap<String, usize> = BTreeMap::new();
    for exit in agents.into_iter().filter_map(|agent| agent.exit.as_ref()) {
        *exits.entry(exit.to_string()).or_default() += 1;
    }
    let mut text = String::new();
    text.extend(exits.into_iter().map(|(why, count)| format!("{count} exited: {why}\n")));
    text
}

fn duration(text: &str) -> Result<Duration, String> {
    model::duration::read_go(text).ok_or_else(|| "a duration looks like 3s, 500ms or 1m30s".into())
}

/// `0.1%` or `0.001`.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>() {
        Ok(number) if (0.0..=scale).contains(&number) => Ok(number / scale),
        _ => Err("a share looks like 0.1% or 0.001 and is from 0% to 100%".into()),
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label looks like tier=edge")?;
    Ok((key.into(), value.into()))
}
