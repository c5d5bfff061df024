//! What is asked of the engine, what it answers, and why it refuses.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    analysis, change::Change, lifecycle, members, offer::OfferName, parent, revision::Tag, rollout, stages,
    state::Release,
};
use crate::{
    children,
    plan::{Advice, Lacks},
    traffic, workflows,
};
use language::{Group, Strategy};
use model::{ChildId, ChildKey, Exclusion, ReleaseId, ReleaseKey};

/// What is asked of the engine, by what it is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Children(children::Command),
    Lifecycle(lifecycle::Command),
    Rollout(rollout::Command),
    Stages(stages::Command),
    Members(members::Command),
    Parent(parent::Command),
    Analysis(analysis::Command),
    Traffic(traffic::Command),
    Workflows(workflows::Command),

    /// A command about a release by somebody who has seen it with one of these tags. If none is the current one, it is refused with
    /// [`Refusal::Changed`], and nothing happens; one that stops it is done unless somebody acted since.
    Guarded {
        release: String,
        tags: Vec<Tag>,
        then: Box<Command>,
    },
    /// Time has passed: look at deadlines.
    Tick,
    /// A command about a release that had left memory, with that release as the store has it.
    Recalled {
        release: Box<Release>,
        then: Box<Command>,
    },
    /// A child's call about such a release, with the part of this child alone. Where that is not enough, or may be out of
    /// date, the release is [`NoReply::Missing`] still.
    RecalledPart {
        part: Box<Release>,
        /// How many decisions there were before it was read.
        as_of: u64,
        then: Box<Command>,
    },
}

/// Which text an offer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// To a manager: the whole strategy in the full language.
    Full,
    /// To a manager: the release is to be taken back.
    UndoOf {
        function: u8,
    },
    /// To an agent that walks through the whole strategy by itself; it reports a stage while it goes on, if it can. Of a hybrid it
    /// has what is its group's.
    InPlace {
        is_reported: bool,
        group: Group,
    },
    /// One stage, which waits for its signal and leaves the base version.
    Stage {
        stage: u8,
    },
    /// One stage, to an agent that reports it while it goes on. It waits for its signal and leaves the base version.
    ReportedStage {
        stage: u8,
    },
    Rollout {
        function: u8,
    },
    Undo {
        function: u8,
    },
    /// Nothing to do; the offer was taken back after it was shown.
    Withdrawn,
}

/// An offer, ready to be rendered.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub release: ReleaseKey,
    pub strategy: Arc<Strategy>,
    pub name: OfferName,
    pub form: Form,
}

/// Who would take part, and what is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outlook {
    /// What the children show to be probably meant otherwise.
    pub advice: Advice,
    pub participants: u32,
    pub excluded: Vec<(Exclusion, u32)>,
    /// Unfinished releases that it waits for.
    pub waits_for: Vec<ReleaseId>,
}

/// What the engine answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Polled {
        child: ChildId,
        key: ChildKey,
        offer: Option<String>,
    },
    Offer(Offer),
    /// Stored, or stored before.
    Stored,
    EndStage {
        end: bool,
        /// A manager: everything of this release is to be taken back.
        rollback: bool,
        /// A manager: stages that are passed over.
        skip: Vec<String>,
        /// An agent: the variation that is to serve alone in the end, whatever the stages say.
        winner: Option<String>,
        /// An agent: what the one variation beside the stable one gets in stages whose shares were changed, in units of 0.01 %.
        shares: BTreeMap<String, u16>,
        /// A manager: it is decided to go on from the failed stages of which it asked.
        accepted: bool,
    },
    /// The parent will hear when a release is taken back; if it is already, how many agents have not confirmed that.
    TakenBack {
        is_under_way: bool,
        unconfirmed: u32,
    },
    Submitted {
        created: bool,
        outlook: Outlook,
    },
    /// A look at an analysis was taken in; or it was not the one that is waited for, and changed nothing.
    Looked {
        counts: bool,
    },
    /// What was told of a router is stored, and is news or was known but for counts of calls.
    Told {
        is_news: bool,
    },
    /// An order to a router is stored under this number.
    Ordered {
        number: u64,
    },
    /// Done, or nothing left to do.
    Done,
}

/// Why the engine refuses. The text is for whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("child {0} is not known here")]
    UnknownChild(String),
    #[error("child {0} leads no router")]
    LeadsNoRouter(String),
    #[error("router {router} leads no service {service}")]
    UnknownService { router: String, service: String },
    #[error("release {0} is not known")]
    UnknownRelease(String),
    #[error("{offer} was never offered to child {child}")]
    NeverOffered { child: String, offer: String },
    #[error("{offer} has no stage {stage:?}")]
    UnknownStage { offer: String, stage: String },
    #[error("stage {stage:?} of {offer} has not started for this child")]
    NotStarted { offer: String, stage: String },
    #[error("stage {stage:?} of {offer} has ended with another result")]
    EndedOtherwise { offer: String, stage: String },
    #[error("{offer} is over for this child; the result is kept but no longer counts")]
    Late { offer: String },
    #[error("a child reports InProgress, SuccessWaiting, Completed, Failure or Error, not {0}")]
    NotAReport(model::StageStatus),

    #[error(
        "release {0} exists with another content: choose another id (release submit --again takes the next one that is free, --id NEW \
         the one that you name)"
    )]
    IdTaken(ReleaseId),
    #[error("there is a workflow {0} already: stop it first, or choose another name")]
    WorkflowTaken(String),
    #[error("there is no workflow {0}")]
    UnknownWorkflow(String),
    #[error("workflow {workflow} has no function {part}")]
    UnknownPart { workflow: String, part: String },
    #[error("{part} can't be moved: {why}")]
    CanNotMove { part: String, why: String },
    #[error("id {id} could be confused with an offer of release {other}: choose another id")]
    IdAmbiguous { id: ReleaseId, other: ReleaseId },
    #[error(
        "the stable variation of {} is {}, and what serves now at router {} is {}: name that as the first variation, or say base: replace",
        .0.service, .0.stable, .0.router, .0.serving
    )]
    OtherBase(Box<OtherBase>),
    #[error("router {} is of kind {}, which {}; service {} asks for that", .0.router, .0.kind, .0.lacks, .0.service)]
    CanNotLead(Box<CanNotLead>),
    #[error("{} is to have port {} at router {}: {}", .0.service, .0.port, .0.router, .0.why)]
    PortTaken(Box<PortTaken>),
    #[error("release {release} is not the one that was seen: its tag is \"{current}\" now")]
    Changed { release: ReleaseId, current: Tag },
    #[error("unfinished releases change the same functions: {}", list(.0))]
    Conflict(Vec<ReleaseId>),
    #[error("release {0} is under way, and registers the same once it has ended: wait until it is over")]
    SameAdoption(ReleaseId),
    #[error("child {child} has a part in release {release}: it changes its tenant when it has none")]
    HasPart { child: ChildId, release: ReleaseId },
    /// In which who submits is not to see what is in the way.
    #[error("unfinished releases change the same functions: {}", model::tenant::ANOTHERS)]
    AnothersConflict,
    #[error("release {release} is {state}: {why}")]
    WrongState { release: ReleaseId, state: &'static str, why: &'static str },
    #[error("release {release} has no variation {variation:?}")]
    UnknownVariation { release: ReleaseId, variation: String },
    #[error("variation {variation} of release {release} can't be promoted: {why}")]
    CanNotWin { release: ReleaseId, variation: String, why: String },
    #[error("the shares of stage {stage:?} of release {release} can't be changed: {why}")]
    CanNotShare { release: ReleaseId, stage: String, why: String },
    #[error("release {release} came from the manager above, which decides on {what}: do it there")]
    HeldByParent { release: ReleaseId, what: String },
    #[error("child {child} has no part in release {release}")]
    NoPart { child: String, release: ReleaseId },
    #[error("child {child} could not be planned for release {release} now: {why}")]
    Unfit { child: String, release: ReleaseId, why: Exclusion },
    #[error("no child of release {0} can be retried")]
    NothingToRetry(ReleaseId),
    #[error(
        "{child} may run the new version of {release}, and has not confirmed that it was taken back: a machine that \
         comes back under another id would keep it; forget it with force if it is gone for good"
    )]
    Owes { child: ChildId, release: ReleaseId },
    #[error(
        "{limit} ids that are not known here were brought along from your address and have taken part in nothing: \
         poll with an empty `id`, or later"
    )]
    TooManyAdopted { limit: usize },
    #[error("{what}: the limit of {limit} is reached")]
    Limit { what: &'static str, limit: usize },
}

/// A release would begin with something else than what serves now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherBase {
    pub service: String,
    /// The child that leads it.
    pub router: String,
    /// Variation and targets, in words.
    pub stable: String,
    pub serving: String,
}

/// What a router can't do for a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanNotLead {
    /// The child that would lead it.
    pub router: String,
    pub kind: String,
    pub service: String,
    pub lacks: Lacks,
}

/// A port that a router can't give a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortTaken {
    pub service: String,
    /// The child that would lead it.
    pub router: String,
    pub port: u16,
    /// Who has it, or which ports there are, in words.
    pub why: String,
}

/// Why a command has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoReply {
    /// It is refused: that is the answer.
    Refused(Refusal),
    /// There is no answer yet: the release has left memory. Whoever asked recalls it and asks again, with
    /// [`Command::Recalled`] or [`Command::RecalledPart`].
    Missing(ReleaseKey),
}

impl From<Refusal> for NoReply {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn list(ids: &[ReleaseId]) -> String {
    ids.iter().map(ReleaseId::as_str).collect::<Vec<_>>().join(", ")
}

/// What a command comes to: changes, which may be there even beside a refusal, and the answer.
#[derive(Debug, PartialEq)]
pub struct Decision {
    pub changes: Vec<Change>,
    pub answer: Result<Reply, NoReply>,
}

impl Decision {
    pub fn refused(refusal: Refusal) -> Self {
        NoReply::Refused(refusal).into()
    }

    pub fn unchanged(reply: Reply) -> Self {
        Self { changes: Vec::new(), answer: Ok(reply) }
    }

    pub fn new(changes: Vec<Change>, reply: Reply) -> Self {
        Self { changes, answer: Ok(reply) }
    }
}

impl From<NoReply> for Decision {
    fn from(why: NoReply) -> Self {
        Self { changes: Vec::new(), answer: Err(why) }
    }
}

impl From<Result<Decision, Refusal>> for Decision {
    fn from(decided: Result<Decision, Refusal>) -> Self {
        decided.unwrap_or_else(Self::refused)
    }
}

impl From<Result<Decision, NoReply>> for Decision {
    fn from(decided: Result<Decision, NoReply>) -> Self {
        decided.unwrap_or_else(Self::from)
    }
}

/// When children called last. Kept in memory only, by whoever answers their calls.
pub trait LastSeen {
    /// Serving time of the last call of any kind, in milliseconds; `None` if none was noticed in this life.
    fn last_call(&self, child: ChildKey) -> Option<u64>;

    /// Whether it is known to have called after a serving time.
    fn called_since(&self, child: ChildKey, served_ms: u64) -> bool {
        self.last_call(child).is_some_and(|last| last > served_ms)
    }

    /// Serving time at which a node said last what runs there; of one that never has, of its last call. A call that waits is none.
    fn last_report(&self, node: ChildKey) -> Option<u64> {
        self.last_call(node)
    }
}
