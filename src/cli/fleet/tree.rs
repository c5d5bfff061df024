//! `choirmaster fleet --tree`: managers of several levels on this machine, with the simulated children below them.

use std::{
    io::{IsTerminal, Write},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::{FleetArgs, exits, line};
use crate::cli::{
    failure::Failure,
    show,
    signals::Signals,
    tree::{FleetBelow, Member, Tree, TreeConfig, TreeState},
};
use simulated_children::{EndOfRun, Progress, tree::TreeSpec};

/// How often the tree is looked at, and progress shown.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Files and connections that a manager has open besides its children's.
const FILES_PER_MANAGER: u64 = 24;

/// Those of this program itself.
const OWN_FILES: u64 = 64;

/// What a tree needs beyond what the flat fleet does.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Tree")]
pub struct TreeArgs {
    /// Start managers too: 3x10x100 is 3 managers below a root, 10 below each of those, 100 children below each of
    /// the lowest
    #[arg(long, value_name = "AxBx…xN", conflicts_with_all = ["url", "agents"])]
    pub tree: Option<TreeSpec>,
    /// Each manager in a process of its own
    #[arg(long, requires = "tree")]
    processes: bool,
    /// Address of the root; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", requires = "tree")]
    listen: SocketAddr,
    /// Folder that contains fns/, for releases submitted without functions
    #[arg(long, value_name = "DIR", default_value = ".", requires = "tree")]
    functions: PathBuf,
}

/// What is told of a tree that has been started.
#[derive(Debug, Serialize)]
struct Started<'a> {
    root: &'a str,
    managers: Vec<Member<'a>>,
}

/// What is told of it at its end.
#[derive(Debug, Serialize)]
struct TreeReport {
    /// Always true: the managers are real, no child of this report is.
    simulated: bool,
    seed: u64,
    totals: Progress,
    /// By manager of the lowest level.
    fleets: Vec<FleetBelow>,
}

impl FleetArgs {
    /// The tree that these flags describe, if they do.
    pub fn tree_config(&self) -> Option<TreeConfig> {
        let TreeArgs { tree, processes, listen, functions } = &self.tree;
        let agents = self.config();
        Some(TreeConfig {
            spec: tree.clone()?,
            listen: *listen,
            functions_root: functions.clone(),
            // Managers poll like children do.
            poll: agents.poll.mul_f64(agents.pace.clamp(0.0, 1.0)),
            processes: *processes,
            agents,
        })
    }
}

/// Runs the command until a signal, or until the flags say that it is over.
pub async fn run(args: &FleetArgs, config: TreeConfig, out: &mut impl Write) -> Result<u8, Failure> {
    let mut end = Signals::new().map_err(|error| Failure::ours(format!("no signals: {error}")))?;
    enough_files(&config)?;
    let mut tree = tokio::select! {
        tree = Tree::start(&config, |_, _| ()) => tree?,
        () = end.next() => return Ok(0),
    };
    let watched = tokio::select! {
        watched = watch(args, &mut tree, out) => watched,
        () = end.next() => Ok(()),
    };
    let mut err = std::io::stderr();
    if err.is_terminal() {
        writeln!(err)?;
    }
    let totals = tree.progress();
    let fleets = tokio::select! {
        fleets = tree.stop() => fleets?,
        () = end.next() => return Err(Failure::ours("ended before every manager had stopped")),
    };
    watched?;
    let report = TreeReport { simulated: true, seed: args.seed, totals, fleets };
    if args.json {
        serde_json::to_writer(&mut *out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", summary(&report))?;
    }
    Ok(0)
}

/// Tells what there is, then how it goes.
async fn watch(args: &FleetArgs, tree: &mut Tree, out: &mut impl Write) -> Result<(), Failure> {
    let managers = tree.members();
    if args.json {
        let started = Started { root: tree.root(), managers };
        serde_json::to_writer(&mut *out, &started).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        let rows = managers.iter().map(|Member { place, url, .. }| {
            let agents = if place.agents == 0 { String::new() } else { place.agents.to_string() };
            vec![place.name.clone(), (*url).to_owned(), agents]
        });
        write!(
            out,
            "listening on {}\n\n{}\n{} managers, {} SIMULATED children (seed {})\nIn a second terminal: choirmaster \
             release submit FILE --url {}\n",
            tree.root(),
            show::table(&["MANAGER", "ADDRESS", "CHILDREN"], rows),
            managers.len(),
            tree.size(),
            args.seed,
            tree.root()
        )?;
    }
    out.flush()?;
    let mut err = std::io::stderr();
    let live = err.is_terminal();
    let mut over = EndOfRun::new(args.run_for, args.until_idle.map(Duration::from_secs));
    let (mut whole, began) = (false, tokio::time::Instant::now());
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for lost in tree.lost() {
            writeln!(err, "{}a manager has ended by itself, {lost}", clear(live))?;
        }
        let progress = tree.progress();
        let mut text = line(&progress);
        if !whole {
            // A manager that is not reached now may be soon.
            let standing = tree.standing().await.unwrap_or_default();
            whole = tree.is_whole(standing);
            text = registered(tree, standing);
            if whole {
                let seconds = began.elapsed().as_secs_f64();
                writeln!(err, "{}{text}; the tree stands after {seconds:.1} s", clear(live))?;
            }
        }
        if live {
            let width = crossterm::terminal::size().map_or(80, |(width, _)| usize::from(width));
            write!(err, "{}{}", clear(live), show::cut(&text, width.saturating_sub(1)))?;
            err.flush()?;
        }
        if over.is_reached(&progress) {
            return Ok(());
        }
    }
}

/// Takes the line of progress away.
fn clear(live: bool) -> &'static str {
    if live { "\r\x1b[K" } else { "" }
}

fn registered(tree: &Tree, standing: TreeState) -> String {
    format!(
        "{} of {} managers have registered, the root knows of {} of {} children",
        standing.managers + 1,
        tree.members().len(),
        standing.agents,
        tree.size()
    )
}

fn summary(report: &TreeReport) -> String {
    let totals = &report.totals;
    format!(
        "{}\n{} calls to the managers, {} of them polls; {} unanswered, {} refused; {} offers run\n{}",
        line(totals),
        totals.calls,
        totals.polls,
        totals.calls - totals.answers,
        totals.refusals,
        totals.offers_run,
        exits(report.fleets.iter().flat_map(|below| &below.report.agents))
    )
}

/// A process may have so many files open, and each connection is one: better told before than by calls that fail.
fn enough_files(config: &TreeConfig) -> Result<(), Failure> {
    let managers = config.spec.places(config.agents.spread);
    let agents: usize = managers.iter().map(|place| place.agents).sum();
    // Both ends of each connection are here, unless the managers are elsewhere.
    let needed = if config.processes {
        OWN_FILES + agents as u64 + 2 * managers.len() as u64
    } else {
        OWN_FILES + 2 * agents as u64 + FILES_PER_MANAGER * managers.len() as u64
    };
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit {
        Some(limit) if limit < needed => Err(Failure::user(format!(
            "a tree of this size needs about {needed} open files, and this process may have {limit}: raise the limit \
             (ulimit -n {needed}), or take fewer children"
        ))),
        _ => Ok(()),
    }
}
