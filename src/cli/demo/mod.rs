//! `choirmaster demo`: a manager on an embedded store and twenty simulated children, then a tree of managers, from
//! nothing, in a minute; then real functions on real agents.
//!
//! The samples are submitted one after the other through the API, as anybody would. What is checked at the end of
//! each is what the manager says *and* what the children themselves have come to run.

mod limits;
mod own;
mod run;
pub mod samples;
mod screen;
mod tree;

use std::{
    io::{IsTerminal, Write},
    path::Path,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use self::{
    run::{AGENTS, Stage},
    screen::FinishedRelease,
};
use super::{
    client::{Client, Connection},
    failure::Failure,
    show,
    signals::Signals,
};
use crate::{
    app,
    app::{Manager, Options},
};
use simulated_children::{
    Behaviour, Faults, FleetConfig, FleetError, FleetReport, Latency, Progress, Traffic,
};

/// Calls a second at each child. High enough that 5 % of them are never nothing.
const CALLS_PER_SECOND: f64 = 200.0;

/// Show what it does: a manager with 20 simulated children, then a tree of managers, and sample releases one after
/// the other; then real functions on two real agents.
///
/// Some of the samples are bad on purpose: they must fail, and the base version must run again everywhere. The real functions
/// are called all the while, and no call may be lost. Ends with 0 if all came out as it should. Nothing is left behind; nothing
/// but this program is needed (functions for node and python3 are left out where these are missing).
#[derive(Debug, clap::Args)]
#[command(after_help = "While it runs, in a second terminal (with the address that it prints):\n  \
                        choirmaster release watch gradual --url http://127.0.0.1:PORT")]
pub struct Args {
    /// Real seconds in a second of the children's clocks
    #[arg(long, value_name = "FACTOR", default_value_t = 0.1)]
    pace: f64,
    /// All that is random at the children follows from it
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    fleet_of(args, "").validate().map_err(|error| Failure::user(error.to_string()))?;
    let folder = tempfile::Builder::new()
        .prefix("choirmaster-demo-")
        .tempdir()
        .map_err(|error| Failure::ours(format!("no temporary folder: {error}")))?;
    samples::write_functions(folder.path())
        .map_err(|error| Failure::ours(format!("the sample functions can't be written: {error}")))?;
    let done = perform(args, folder.path(), out).await;
    // What is left of it in a temporary folder harms nobody.
    let _ = folder.close();
    done
}

async fn perform(args: &Args, folder: &Path, out: &mut impl Write) -> Result<u8, Failure> {
    let store = format!("sqlite://{}", folder.join("demo.db").display());
    let manager = app::start(Options::local(store, folder.to_owned())).await?;
    let flat = unless_ended(play_flat(args, &manager, out)).await;
    manager.stop().await?;
    let (mut ended, report) = flat?;
    ended.extend(tree::play(args, folder, out).await?);
    let mut own = own::play(folder, out).await?;
    ended.append(&mut own.ended);
    write!(out, "\n{}", summary(&ended))?;
    let rightly = ended.iter().filter(|one| one.wrong.is_none()).count();
    writeln!(
        out,
        "{rightly} of {} releases came out as they should;\n\
         the simulated children of the first manager made {} calls, {} of them polls;\n{}",
        ended.len(),
        report.totals.calls,
        report.totals.polls,
        own.summary()
    )?;
    let all = samples::SAMPLES.len() + samples::TREE_SAMPLES.len() + own::RELEASES;
    Ok(if rightly == all && own.no_call_was_lost() { 0 } else { super::failure::OURS })
}

/// Lets a part of the demo play, unless somebody has seen enough.
async fn unless_ended<T>(part: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let no_signals = |error| Failure::ours(format!("no signals: {error}"));
    let mut signals = Signals::new().map_err(no_signals)?;
    // Of a terminal that is closed.
    let mut hangup = signal(SignalKind::hangup()).map_err(no_signals)?;
    tokio::select! {
        played = part => return played,
        () = signals.next() => {}
        _ = hangup.recv() => {}
    }
    Err(Failure { code: 130, text: "the demo was ended early".to_owned() })
}

/// One manager, and all samples that need no more.
async fn play_flat(
    args: &Args,
    manager: &Manager,
    out: &mut impl Write,
) -> Result<(Vec<FinishedRelease>, FleetReport), Failure> {
    let url = format!("http://{}", manager.address);
    let client = Client::new(&Connection::to(url.as_str()))?;
    writeln!(
        out,
        "A release manager on an embedded store, and {AGENTS} SIMULATED children:\nno function is really run.\n\
         listening on {url}\n\
         To watch one, in a second terminal:\n  choirmaster release watch RELEASE --url {url}\n"
    )?;
    out.flush()?;
    let children = DemoChildren::start(fleet_of(args, &url));
    let mut stage = Stage::new(&client, children.progress.clone(), std::io::stdout().is_terminal());
    let ended = stage.all(out).await;
    let report = children.end().await;
    Ok((ended?, report?))
}

fn fleet_of(args: &Args, url: &str) -> FleetConfig {
    let healthy = Behaviour { latency: Latency::LogNormal { median_ms: 8.0, sigma: 0.3 }, errors: 0.0 };
    FleetConfig {
        url: url.to_owned(),
        agents: AGENTS,
        seed: args.seed,
        pace: args.pace,
        traffic: Traffic {
            calls_per_second: CALLS_PER_SECOND,
            base: healthy,
            new: healthy,
            bad: Behaviour { errors: 0.8, ..healthy },
            bad_path: Some(samples::BAD_PATH.to_owned()),
        },
        faults: Faults { exit_after_rollback: 0.0, ..Faults::default() },
        ..FleetConfig::default()
    }
}

/// The simulated children, while they run.
struct DemoChildren {
    progress: watch::Receiver<Progress>,
    stop: CancellationToken,
    running: JoinHandle<Result<FleetReport, FleetError>>,
}

impl DemoChildren {
    fn start(config: FleetConfig) -> Self {
        let (told, progress) = watch::channel(Progress::default());
        let stop = CancellationToken::new();
        let running = tokio::spawn(simulated_children::run(config, stop.clone(), move |progress| {
            told.send_replace(progress.clone());
        }));
        Self { progress, stop, running }
    }

    async fn end(self) -> Result<FleetReport, Failure> {
        self.stop.cancel();
        let report =
            self.running.await.map_err(|error| Failure::ours(format!("the children died: {error}")))?;
        report.map_err(|error| Failure::user(error.to_string()))
    }
}

/// What came of each release.
fn summary(ended: &[FinishedRelease]) -> String {
    let rows = ended.iter().map(|one| {
        vec![
            one.id.clone(),
            one.state.clone(),
            one.succeeded.to_string(),
            one.failed.to_string(),
            one.new_at.to_string(),
            one.base_at.to_string(),
            show::lasted(one.took.as_secs().try_into().unwrap_or(i64::MAX)),
            one.wrong.clone().unwrap_or_else(|| "as it should".to_owned()),
        ]
    });
    let head = ["RELEASE", "ENDED", "OK", "FAILED", "NEW AT", "BASE AT", "TOOK", ""];
    show::table(&head, rows)
}
