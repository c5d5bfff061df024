//! What the agent knows and must not forget: all of it is one value, kept on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use call_metrics::Cursor;
use language::Resources;
use protocol::StageSummary;
use proxy::form::{Retry, Sticky};
use serde::{Deserialize, Serialize};

use super::managed_service::LedService;
use crate::{judge::Judge, measure::StageCounts, runtime::VersionId};

/// The newest form of the state that this program knows.
pub const FORMAT: u32 = 1;

/// What is kept on disk. Written before anything that follows from it is begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    pub format: u32,
    /// What the manager calls this agent.
    #[serde(default)]
    pub id: Option<String>,
    /// The number of the table that was decided last, in two parts as proxies count them.
    #[serde(default)]
    pub epoch: u64,
    #[serde(default)]
    pub generation: u64,
    /// What serves, by the function's name.
    #[serde(default)]
    pub functions: BTreeMap<String, Function>,
    /// Services whose calls are led, by name.
    #[serde(default)]
    pub services: BTreeMap<String, LedService>,
    /// Services that were led, or refused before they were, and are let go: each is in here until a table without it was read back.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub withdrawn: BTreeSet<String>,
    /// Functions that an operator gave another version, which is started first.
    #[serde(default)]
    pub adding: BTreeMap<String, Adding>,
    /// Every version that was ever wanted and is not known to be gone.
    #[serde(default)]
    pub versions: BTreeMap<VersionId, VersionNote>,
    /// Those of them that failed: what they wrote is kept when they are ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<VersionId, FailedVersion>,
    /// Where versions run, or ran last: what serves goes on while its runtime can't be asked.
    #[serde(default)]
    pub places: BTreeMap<VersionId, Place>,
    #[serde(default)]
    pub work: Option<Work>,
    /// Results that the manager has not answered, oldest first.
    #[serde(default)]
    pub owed: VecDeque<PendingResult>,
    /// How many offers and results there were: what tells one from another.
    #[serde(default)]
    pub count: u64,
    /// How far the proxy's counts were read.
    #[serde(default)]
    pub cursor: Cursor,
}

impl Default for State {
    fn default() -> Self {
        Self {
            format: FORMAT,
            id: None,
            epoch: 0,
            generation: 0,
            functions: BTreeMap::new(),
            services: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            adding: BTreeMap::new(),
            versions: BTreeMap::new(),
            failed: BTreeMap::new(),
            places: BTreeMap::new(),
            work: None,
            owed: VecDeque::new(),
            count: 0,
            cursor: Cursor::default(),
        }
    }
}

/// A function that is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// What answers.
    pub stable: VersionId,
    /// What is tried beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Candidate>,
    /// What answered before, and runs on for a while so that going back is one change of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    #[serde(default)]
    pub routing: Routing,
    /// By what the manager is told of what serves; `None`: no offer was about it, or one is in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<LeftBy>,
}

/// The last offer that was about a function and is over, and its last stage that was about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBy {
    pub offer: String,
    pub stage: String,
    /// Its base version and its new one.
    pub versions: [VersionId; 2],
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub version: VersionId,
    /// Units of 0.01 %.
    pub share: u16,
    /// The stage in which it is tried.
    pub stage: String,
    /// What these shares are called in counts.
    pub split: String,
    /// What the keys of calls are hashed with.
    pub salt: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub version: VersionId,
    /// How long it runs on, counted anew when the agent starts anew.
    pub for_ms: u64,
}

/// A version that is to serve as soon as it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adding {
    pub version: VersionId,
    pub routing: Routing,
}

/// How calls of a function find their version, and when they are repeated.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Routing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// What has to be known of a version to start it and to end it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionNote {
    /// What people call what it is a version of.
    pub function: String,
    /// The form of the function: `nodejs`, `python`, `binary`, `program`.
    pub runner: String,
    /// Where it is a variation of a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<Box<VariationNote>>,
}

/// What has to be known of a version that is a variation of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariationNote {
    pub service: String,
    /// What it was called in the releases that named it: it may have connections under each of these.
    pub names: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub limits: Resources,
    /// What is called to see whether it answers; `None`: a connection is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// It takes calls of HTTP, and so those that warm it up.
    pub is_http: bool,
    /// How long it may have connections once it gets none any more, where its service says that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<u64>,
}

/// Where a version failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedVersion {
    /// The id of the offer.
    pub offer: String,
    pub stage: String,
    /// What people call it: a function's folder, the name of a service's variation.
    pub name: String,
    /// In a sentence; of one that could not be started with the end of what it wrote.
    pub why: String,
}

/// Where a version runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// What its runtime is called.
    pub runtime: String,
    /// Where it listens, as targets are written.
    pub target: String,
}

/// An offer in hand.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    pub offer: String,
    /// Tells this walk through the offer from others.
    pub run: u64,
    pub phase: Phase,
    /// Stages of which it was told that they are passed over.
    #[serde(default)]
    pub skipped: BTreeSet<String>,
    /// The variation that the manager wants to serve alone in the end; `None`: the one that has most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// What the manager chose since the offer was fetched for the one variation beside the stable one, by the names of stages, in units of
    /// 0.01 %. It counts instead of what the text says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, u16>,
    /// How many stages were begun.
    #[serde(default)]
    pub begun: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Text and functions are fetched.
    Fetching,
    /// Versions are started.
    Preparing(Plan),
    /// Stages are walked through.
    Walking(Box<Walk>),
}

/// What an offer says, and by which versions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The offer's text.
    pub text: String,
    /// Base and new version of each function of the text, in its order.
    pub versions: Vec<[VersionId; 2]>,
    /// Variations of services that have to run before it is begun.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub started: Started,
}

/// Versions that are variations of services: by the service's name, then by the variation's.
pub type Started = BTreeMap<String, BTreeMap<String, VersionId>>;

impl Plan {
    /// All that is to run before it is begun.
    pub(super) fn all(&self) -> impl Iterator<Item = &VersionId> {
        self.versions.iter().flatten().chain(self.started.values().flat_map(BTreeMap::values))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Walk {
    pub plan: Plan,
    /// The stage that is tested.
    #[serde(default)]
    pub testing: Option<Testing>,
    /// The one before it, whose last calls are counted.
    #[serde(default)]
    pub ending: Option<Ending>,
    /// The new versions take over: the generation of the table that was in force when that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taking_over: Option<u64>,
}

/// A stage while it is tested.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Testing {
    /// Index of the stage in the offer.
    pub stage: usize,
    pub counts: StageCounts,
    pub judge: Judge,
    /// For how long its shares have been in force.
    pub elapsed_ms: u64,
    /// It was said that it may end.
    #[serde(default)]
    pub announced: bool,
    /// What a person has to look at before the release goes on, in a sentence with the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    /// The manager knows of it.
    #[serde(default)]
    pub told: bool,
    /// The stage has failed, and keeps its shares; why, in a sentence with the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// A stage that was decided: as soon as what follows is in force and its last calls are counted, it is reported.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ending {
    pub stage: usize,
    pub counts: StageCounts,
    pub status: u8,
    /// What follows, as it is written in results.
    pub next: String,
    /// What a person should know of it.
    #[serde(default)]
    pub why: Option<String>,
    /// Too few of its targets were healthy, whatever was counted.
    #[serde(default)]
    pub is_unhealthy: bool,
    /// It had failed and kept its shares, and the manager wants what follows it all the same.
    #[serde(default)]
    pub is_kept: bool,
    /// What was to take over answered no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_silent: bool,
    /// All was given back since somebody here wanted it, or something here failed: nobody has rolled the release back, and services that
    /// came with it stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_services: bool,
}

/// A result that is owed to the manager.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PendingResult {
    /// Tells it from others.
    pub number: u64,
    pub offer: String,
    pub summary: StageSummary,
    pub next: String,
    /// It says that the stage waits for the signal; what says how it ended takes its place.
    #[serde(default)]
    pub waits: bool,
}

impl Function {
    pub fn serving(stable: VersionId, routing: Routing) -> Self {
        Self { stable, candidate: None, kept: None, routing, by: None }
    }

    /// All its versions that are to run.
    pub fn versions(&self) -> impl Iterator<Item = &VersionId> {
        let candidate = self.candidate.as_ref().map(|candidate| &candidate.version);
        let kept = self.kept.as_ref().map(|kept| &kept.version);
        [Some(&self.stable), candidate, kept].into_iter().flatten()
    }
}

impl Work {
    pub fn plan(&self) -> Option<&Plan> {
        match &self.phase {
            Phase::Fetching => None,
            Phase::Preparing(plan) => Some(plan),
            Phase::Walking(walk) => Some(&walk.plan),
        }
    }

    pub fn walk(&self) -> Option<&Walk> {
        match &self.phase {
            Phase::Fetching | Phase::Preparing(_) => None,
            Phase::Walking(walk) => Some(walk),
        }
    }

    pub fn walk_mut(&mut self) -> Option<&mut Walk> {
        match &mut self.phase {
            Phase::Fetching | Phase::Preparing(_) => None,
            Phase::Walking(walk) => Some(walk),
        }
    }
}
