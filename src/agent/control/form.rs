//! What the control answers, as it travels. Times are milliseconds since 1970, UTC.

use std::path::PathBuf;

pub use model::traffic::RouterPhase;
pub use proxy::{
    control::form::TableNumber,
    form::{Retry, Sticky},
};
use serde::{Deserialize, Serialize};

use crate::runtime::{Phase, Running};

/// How an agent stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the program.
    pub program: String,
    pub pid: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What the manager calls it; none before it was ever reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub manager: ManagerStatus,
    /// The proxy beside the agent; none where it leads a router of somebody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyStatus>,
    /// The router that it leads; none where that is the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterStatus>,
    /// Why what the agent knows can't be written to its disk; until it can, nothing new is begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<String>,
    /// What can run here.
    #[serde(default)]
    pub runtimes: Vec<RuntimeStatus>,
    /// In order of their names.
    #[serde(default)]
    pub functions: Vec<FunctionStatus>,
    /// Services whose calls are led, in order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceStatus>,
    /// The release that is in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkStatus>,
    #[serde(default)]
    pub owed: PendingReports,
    /// How often this process took a new version back by its own judgement, by a person's word, or because a new version could not be
    /// started.
    #[serde(default)]
    pub stops: Stops,
}

impl Status {
    /// Whether whatever splits the calls answers.
    #[must_use]
    pub fn is_led(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.answers)
            || self.router.as_ref().is_some_and(|router| router.answers)
    }
}

/// How it stands with the manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerStatus {
    pub url: String,
    /// Its last call was answered, or one waits to be.
    pub reached: bool,
    /// Since when that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// What went wrong when it last did; nothing once it is reached again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// How it stands with the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyStatus {
    pub control: PathBuf,
    pub answers: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The table that was read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableNumber>,
    /// Addresses on which it takes calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// How it stands with a router that is led.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterStatus {
    /// `nginx`, `haproxy`.
    pub kind: String,
    /// It could be asked when that was tried last.
    pub answers: bool,
    pub phase: RouterPhase,
    /// The wanted state that is to be in force, and the one by which it was seen to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<TableNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<TableNumber>,
    /// When that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_ms: Option<i64>,
    /// What stands in the way, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What is taken away from what is wanted while targets are not there: a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departures: Vec<String>,
    /// How often a drift was repaired within the last hour.
    #[serde(default)]
    pub repairs: usize,
    /// The newest drifts, the oldest of them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<DriftStatus>,
}

/// A router did something else than it was seen to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftStatus {
    pub at_ms: i64,
    /// In what it differed, and what was done about that.
    pub text: String,
}

/// A runtime, and the forms of functions that it can run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeStatus {
    pub name: String,
    pub runners: Vec<String>,
    /// It answered when it was asked last. While it doesn't, nothing is started there, and what it serves goes on.
    #[serde(default = "is_reached")]
    pub reached: bool,
    /// Why it isn't reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Agents of before had only runtimes that were.
fn is_reached() -> bool {
    true
}

/// A function that is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionStatus {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    pub stable: VersionStatus,
    /// What a release tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<CandidateStatus>,
    /// What was stable before, and runs on so that going back takes no start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptStatus>,
}

/// A service whose variations run elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    pub name: String,
    pub ports: Vec<u16>,
    /// The stable one first.
    pub variations: Vec<VariationStatus>,
    /// A release shares its calls out.
    #[serde(default)]
    pub is_tried: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariationStatus {
    pub name: String,
    /// What it is to get, in units of 0.01 %.
    pub share: u16,
    /// What it was read back to get; none where it isn't there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u16>,
    pub targets: Vec<String>,
    /// How many of its targets are healthy; none where they aren't checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<u32>,
    /// It gets no calls any more, and is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<Draining>,
}

/// A variation that is waited for until nobody is connected to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// Connections that are left; none where the router doesn't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
}

/// A version that was started here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionStatus {
    /// The digest of its content.
    pub version: String,
    /// The form that it has: `nodejs`, `python`, …
    pub runner: String,
    pub phase: Phase,
    /// Where it listens.
    pub target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How often it ended by itself and was started again.
    #[serde(default)]
    pub restarts: u64,
    /// How it ended when it last did, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<String>,
}

impl From<&Running> for VersionStatus {
    fn from(running: &Running) -> Self {
        Self {
            version: running.version.to_string(),
            runner: running.runner.clone(),
            phase: running.phase,
            target: running.target.to_string(),
            pid: running.pid,
            restarts: running.restarts,
            last_exit: running.last_exit.as_ref().map(ToString::to_string),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateStatus {
    pub version: VersionStatus,
    /// Units of 0.01 %, as read back from the proxy.
    pub share: u16,
    /// The stage that it is in.
    pub stage: String,
    /// Its calls in this stage that have ended.
    pub calls: u64,
    /// Those of them that it failed, with those that were repeated on the stable version.
    pub errors: u64,
    /// Those of the errors that no caller saw, because they were repeated on the stable version.
    #[serde(default)]
    pub repeated: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptStatus {
    pub version: VersionStatus,
    /// When it is stopped; none where that waits for something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

/// A release in hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkStatus {
    /// What the manager calls its offer.
    pub offer: String,
    /// What is being done: `downloads`, `starts`, `runs a stage`, …
    pub phase: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Its stage is done here and ends when the manager says so.
    #[serde(default)]
    pub waits_for_signal: bool,
    /// Why its stage has failed, where that keeps its shares until people decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Why it was taken back here, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// What the manager was not told yet, or has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PendingReports {
    pub results: u64,
    /// When it is tried again; none where nothing is owed, or just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_ms: Option<i64>,
}

/// How often new versions were taken back here since the agent was started, by who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stops {
    /// By the agent's own judgement of the calls.
    pub judged: u64,
    /// By a person, at this control.
    pub ordered: u64,
    /// By the manager.
    pub managed: u64,
    /// Because the new version could not be started, or not kept running.
    pub unstarted: u64,
}

/// What is to be undone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// None: all that have something to undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What the manager and the log are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    pub functions: Vec<String>,
    /// What becomes of it, in a sentence.
    pub text: String,
}

/// A function that is to be served before any release of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewFunction {
    /// Its content; absolute.
    pub folder: PathBuf,
    /// The form that it has; none: what the folder holds says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// It is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    pub name: String,
    /// The digest of its content.
    pub version: String,
    /// Where it is called: `http://127.0.0.1:8000/NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<String>,
}

/// It is served no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub name: String,
}

/// Which version of a function is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// What a release tries.
    New,
    /// What is stable.
    Base,
}

/// An answer that isn't what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub error: String,
}
