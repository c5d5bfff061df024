//! What a fleet did, for people and for tests.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
};

use serde::Serialize;

use super::config::{FleetConfig, FleetKind};

/// What a child is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Starting,
    Polling,
    Running,
    Exited,
}

/// Flag of a child that has come to the end of an offer.
const DONE: u8 = 1 << 6;

/// Flag of a child that runs a new version.
const ROLLED_OUT: u8 = 1 << 7;

const PHASE: u8 = 0b11;

/// What all children do at the moment: a byte each.
#[derive(Debug)]
pub(super) struct Board {
    children: Vec<AtomicU8>,
    pub polls: AtomicU64,
    pub calls: AtomicU64,
    pub answers: AtomicU64,
    pub refusals: AtomicU64,
    pub offers_run: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Board {
    pub fn new(agents: usize) -> Self {
        Self {
            children: (0..agents).map(|_| AtomicU8::new(Phase::Starting as u8)).collect(),
            polls: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            offers_run: AtomicU64::new(0),
            last_error: Mutex::new(None),
        }
    }

    /// A call was not answered. Why is kept of the last one only.
    pub fn unanswered(&self, why: &impl fmt::Display) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_string());
    }

    pub fn phase(&self, index: usize, phase: Phase) {
        self.change(index, |byte| (byte & !PHASE) | phase as u8);
    }

    /// A child came to the end of an offer.
    pub fn done(&self, index: usize) {
        self.offers_run.fetch_add(1, Relaxed);
        self.change(index, |byte| byte | DONE);
    }

    pub fn rolled_out(&self, index: usize, yes: bool) {
        self.change(index, |byte| if yes { byte | ROLLED_OUT } else { byte & !ROLLED_OUT });
    }

    /// Only the child's own task writes its byte.
    fn change(&self, index: usize, change: impl FnOnce(u8) -> u8) {
        if let Some(byte) = self.children.get(index) {
            byte.store(change(byte.load(Relaxed)), Relaxed);
        }
    }

    pub fn progress(&self) -> Progress {
        let mut progress = Progress {
            agents: self.children.len(),
            polls: self.polls.load(Relaxed),
            calls: self.calls.load(Relaxed),
            answers: self.answers.load(Relaxed),
            refusals: self.refusals.load(Relaxed),
            offers_run: self.offers_run.load(Relaxed),
            ..Progress::default()
        };
        for byte in self.children.iter().map(|byte| byte.load(Relaxed)) {
            progress.polling += usize::from(byte & PHASE == Phase::Polling as u8);
            progress.running += usize::from(byte & PHASE == Phase::Running as u8);
            progress.exited += usize::from(byte & PHASE == Phase::Exited as u8);
            progress.done += usize::from(byte & DONE != 0);
            progress.rolled_out += usize::from(byte & ROLLED_OUT != 0);
        }
        progress
    }
}

/// Counts of the simulated children at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Progress {
    pub agents: usize,
    /// Wait for an offer.
    pub polling: usize,
    /// Run an offer.
    pub running: usize,
    /// Have come to the end of at least one offer.
    pub done: usize,
    /// Run a new version of some function.
    pub rolled_out: usize,
    /// Gone for good.
    pub exited: usize,
    pub polls: u64,
    /// HTTP calls made, polls included.
    pub calls: u64,
    /// HTTP calls that were answered.
    pub answers: u64,
    /// Of these, with another status than 200.
    pub refusals: u64,
    /// Offers that children have come to the end of.
    pub offers_run: u64,
}

impl Progress {
    /// Those of several fleets together.
    pub fn sum<'a>(fleets: impl IntoIterator<Item = &'a Self>) -> Self {
        fleets.into_iter().fold(Self::default(), |sum, fleet| Self {
            agents: sum.agents + fleet.agents,
            polling: sum.polling + fleet.polling,
            running: sum.running + fleet.running,
            done: sum.done + fleet.done,
            rolled_out: sum.rolled_out + fleet.rolled_out,
            exited: sum.exited + fleet.exited,
            polls: sum.polls + fleet.polls,
            calls: sum.calls + fleet.calls,
            answers: sum.answers + fleet.answers,
            refusals: sum.refusals + fleet.refusals,
            offers_run: sum.offers_run + fleet.offers_run,
        })
    }
}

/// Why an agent's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", content = "text", rename_all = "snake_case")]
pub enum Exit {
    /// `/release` was refused or not answered.
    Release(String),
    /// `/release/functions` was refused, not answered or no archive.
    Functions(String),
    /// The offer could not be read.
    Yaml(String),
    /// There were stages left after a roll-back.
    AfterRollback,
    /// A stage named a function the offer doesn't have.
    UnknownFunction(String),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release(why) => write!(f, "/release: {why}"),
            Self::Functions(why) => write!(f, "/release/functions: {why}"),
            Self::Yaml(why) => write!(f, "unreadable offer: {why}"),
            Self::AfterRollback => write!(f, "stages left after a roll-back"),
            Self::UnknownFunction(name) => write!(f, "no function {name:?} in the offer"),
        }
    }
}

/// What answers the callers of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum LiveVersion {
    Base {
        path: String,
    },
    New {
        path: String,
    },
    /// A test is running.
    Proxy,
    /// The agent left in the middle of a test: every call fails.
    OrphanedProxy,
}

/// One machine at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentReport {
    pub index: usize,
    /// The ids it was called by, in order; more than one after restarts.
    pub ids: Vec<String>,
    /// Why it is gone; `None`: it still ran when the fleet was stopped.
    pub exit: Option<Exit>,
    /// By function; one that was never touched is not in it.
    pub live: BTreeMap<String, LiveVersion>,
    /// How long callers got errors or nothing, on the child's clock: behind a proxy that was left alone, or in a test of
    /// versions that were removed. What it costs to set up a test or to end it is not in it.
    pub without_service_ms: u64,
    /// How often each version (by its folder) was set up.
    pub setups: BTreeMap<String, u64>,
    /// How often a version left behind was used instead of setting one up.
    pub reused: u64,
    pub restarts: u64,
    pub offers_run: u64,
}

/// The whole fleet at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetReport {
    /// Always true: no child of this report is real.
    pub simulated: bool,
    pub kind: FleetKind,
    pub seed: u64,
    pub totals: Progress,
    /// Whether the manager answered any call at all.
    pub reached: bool,
    /// Why the last call that was not answered was not.
    pub last_error: Option<String>,
    /// By index.
    pub agents: Vec<AgentReport>,
}

impl FleetReport {
    /// How long callers of all children got errors or nothing, in seconds on the children's clocks.
    pub fn without_service(&self) -> f64 {
        self.agents.iter().map(|agent| agent.without_service_ms as f64).sum::<f64>() / 1_000.0
    }

    pub(super) fn new(config: &FleetConfig, board: &Board, agents: Vec<AgentReport>) -> Self {
        let totals = board.progress();
        Self {
            simulated: true,
            kind: config.kind,
            seed: config.seed,
            reached: totals.answers > 0,
            last_error: board.last_error.lock().unwrap_or_else(PoisonError::into_inner).take(),
            totals,
            agents,
        }
    }
}
