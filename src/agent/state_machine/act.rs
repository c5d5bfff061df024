//! What is to be done, and what came of it.

use std::collections::{BTreeMap, BTreeSet};

use call_metrics::Reading;
use protocol::{EndStageAnswer, ManagerTime, StageSummary};
use proxy::{control::form::TableNumber, live::Target};

use super::{
    state::{FailedVersion, Started, VersionNote},
    table::Table,
};
use crate::runtime::{Running, VersionId};

/// Something that is to be in flight. Two that are equal are the same: whoever carries them out starts none twice, and gives up
/// what is not named any more, where that can be given up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// Ask the runtimes what runs.
    List,
    /// Ask what splits calls which table is in force, for the how manyth time.
    Look(u64),
    /// Show the join token, and get an id and a token of one's own.
    Join,
    /// Ask for an offer, and wait.
    Poll,
    /// Ask whether a stage is to end, and wait. What is known of stages that are passed over and of shares that were chosen is no news.
    EndStage { offer: String, stage: String, skipped: Vec<String>, shares: BTreeMap<String, u16> },
    /// Send the result of this number.
    Send(u64),
    /// Say how a stage is going.
    Report { run: u64, stage: usize },
    /// Fetch an offer: its text and its functions.
    Fetch { offer: String, run: u64 },
    /// Start a version, or wait until it answers.
    Start(VersionId),
    /// Put the table of this number in force.
    Apply(u64),
    /// Wait until the table of this number comes to something else, since other targets can be reached.
    Watch(u64),
    /// Wait until nobody holds a version any more.
    Drain(VersionId),
    /// Wait until nobody is connected to a variation of a service any more, or the deadline for that has passed.
    Empty { service: String, variation: String },
    /// Ask whether a variation of a service answers that is to serve alone.
    Ask { service: String, variation: String },
    /// End a version and remove what is left of it.
    Stop(VersionId),
    /// Read what was counted, for the how manyth time.
    Count(u64),
}

/// With what an act is carried out.
#[derive(Debug, Clone)]
pub enum Errand {
    None,
    /// A call that may wait isn't to: its answer shows that the manager is reached.
    AtOnce,
    Version(VersionNote),
    /// A variation of a service that is wanted no more: by which names it may have calls, and where it listens or listened last.
    Left {
        service: String,
        names: BTreeSet<String>,
        target: Option<String>,
    },
    Table(Box<Table>),
    /// `needs_all`: a stage goes on at these counts.
    Cursor {
        cursor: call_metrics::Cursor,
        needs_all: bool,
    },
    Result {
        offer: String,
        summary: Box<StageSummary>,
        next: String,
    },
    /// The end of a version: which runtime has it, as far as that is known, and where it failed, if it did: then what it wrote is kept.
    At(Option<String>, Option<Box<FailedVersion>>),
}

/// What the runtimes said when they were asked what runs.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// The versions of each runtime that answered, by its name.
    pub found: Vec<(String, Vec<Running>)>,
    /// The runtimes that didn't answer, and why.
    pub away: BTreeMap<String, String>,
}

impl From<Vec<Running>> for Listed {
    /// Of the only runtime that there is.
    fn from(found: Vec<Running>) -> Self {
        Self { found: vec![(String::new(), found)], away: BTreeMap::new() }
    }
}

/// What came of an act.
#[derive(Debug, Clone)]
pub enum Event {
    Listed(Result<Listed, Trouble>),
    Looked(Result<ReadBack, Trouble>),
    Joined(Result<String, Trouble>),
    /// `took_ms`: how long the answer took.
    Polled {
        took_ms: u64,
        answer: Result<PollResponse, Trouble>,
    },
    EndStage {
        offer: String,
        stage: String,
        skipped: Vec<String>,
        shares: BTreeMap<String, u16>,
        took_ms: u64,
        answer: Result<EndStageAnswer, Trouble>,
    },
    Sent {
        number: u64,
        answer: Result<Option<ManagerTime>, Trouble>,
    },
    Reported {
        run: u64,
        stage: usize,
        sent_ms: u64,
        answer: Result<Option<ManagerTime>, Trouble>,
    },
    Fetched {
        offer: String,
        run: u64,
        fetched: Result<Fetched, Trouble>,
    },
    Started {
        version: VersionId,
        started: Result<StartedVersion, Trouble>,
    },
    Applied {
        generation: u64,
        applied: Result<(), Trouble>,
    },
    Drained {
        version: VersionId,
        drained: Result<bool, Trouble>,
    },
    /// The table of this number comes to something else now.
    Outdated {
        generation: u64,
        outdated: Result<(), Trouble>,
    },
    /// `emptied`: how many connections are left, as far as anybody can tell.
    Emptied {
        service: String,
        variation: String,
        emptied: Result<Option<u64>, Trouble>,
    },
    /// Whether a variation answers.
    Asked {
        service: String,
        variation: String,
        asked: Result<(), Trouble>,
    },
    Stopped {
        version: VersionId,
        stopped: Result<(), Trouble>,
    },
    Counted {
        number: u64,
        counted: Result<CountsReading, Trouble>,
    },
}

/// What was read back of whatever splits calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBack {
    /// Of the table by which it says that it runs.
    pub number: TableNumber,
    /// It does something else than that table says.
    pub differs: bool,
    /// The names of services whose calls it splits.
    pub services: BTreeSet<String>,
}

/// What came of a look at the counts.
#[derive(Debug, Clone)]
pub enum CountsReading {
    Read(Box<Reading>),
    /// Nobody counts, or not well enough to judge by it; why.
    Not(String),
}

/// A version that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedVersion {
    pub target: Target,
    /// The runtime that has it.
    pub runtime: String,
}

impl From<Target> for StartedVersion {
    /// By the only runtime that there is.
    fn from(target: Target) -> Self {
        Self { target, runtime: String::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollResponse {
    pub id: String,
    pub offer: Option<String>,
    /// What the manager reads beside the reference: times value by value, and groups of users.
    pub reads: crate::measure::Reads,
}

/// An offer that was fetched.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub text: String,
    /// Base and new version of each function, in the text's order, whose content is on disk; or why it can't be had, however often
    /// it is asked for.
    pub versions: Result<Vec<[VersionId; 2]>, String>,
    /// Variations of services that are to be started, whose content is on disk as well.
    pub started: Started,
    pub notes: BTreeMap<VersionId, VersionNote>,
}

/// Why something came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// A sentence without secrets.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// It may go better later.
    Passes,
    /// It waits for something that somebody has to do elsewhere, which is looked at each second, however long that takes.
    Waits,
    /// Whoever was asked refuses it: asking again changes nothing.
    Refused,
    /// The manager doesn't accept this agent's token.
    Unauthorized,
}

impl Trouble {
    pub fn passing(text: impl Into<String>) -> Self {
        Self { kind: TroubleKind::Passes, text: text.into() }
    }

    pub fn waits(text: impl Into<String>) -> Self {
        Self { kind: TroubleKind::Waits, text: text.into() }
    }

    pub fn refused(text: impl Into<String>) -> Self {
        Self { kind: TroubleKind::Refused, text: text.into() }
    }
}

impl Act {
    /// What is told of an act that came to nothing.
    #[must_use]
    pub fn failed(self, trouble: Trouble) -> Event {
        match self {
            Self::List => Event::Listed(Err(trouble)),
            Self::Look(_) => Event::Looked(Err(trouble)),
            Self::Join => Event::Joined(Err(trouble)),
            Self::Poll => Event::Polled { took_ms: 0, answer: Err(trouble) },
            Self::EndStage { offer, stage, skipped, shares } => {
                Event::EndStage { offer, stage, skipped, shares, took_ms: 0, answer: Err(trouble) }
            }
            Self::Send(number) => Event::Sent { number, answer: Err(trouble) },
            Self::Report { run, stage } => Event::Reported { run, stage, sent_ms: 0, answer: Err(trouble) },
            Self::Fetch { offer, run } => Event::Fetched { offer, run, fetched: Err(trouble) },
            Self::Start(version) => Event::Started { version, started: Err(trouble) },
            Self::Apply(generation) => Event::Applied { generation, applied: Err(trouble) },
            Self::Watch(generation) => Event::Outdated { generation, outdated: Err(trouble) },
            Self::Drain(version) => Event::Drained { version, drained: Err(trouble) },
            Self::Empty { service, variation } => {
                Event::Emptied { service, variation, emptied: Err(trouble) }
            }
            Self::Ask { service, variation } => Event::Asked { service, variation, asked: Err(trouble) },
            Self::Stop(version) => Event::Stopped { version, stopped: Err(trouble) },
            Self::Count(number) => Event::Counted { number, counted: Err(trouble) },
        }
    }
}
