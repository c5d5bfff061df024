//! What is stored, published and shown as the audit trail: every way in which the state changes.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    analysis::{Extended, Run, Standing},
    assignment::{FunctionSet, ReleaseMs, Step},
    ending::Ending,
    gate::Gate,
    manager::Planned,
    offer::Piece,
    pause::Pause,
    recheck::Recheck,
    state::{Child, End, Profile},
    summary::{Kept, Summary},
    upstream::Upstream,
};
use analysis::Verdict;
use language::Strategy;
use model::{ChildId, ChildKey, Cordon, Exclusion, Now, ReleaseId, ReleaseKey, StageStatus};

/// How a child came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    Registered,
    /// It brought an id along that was not known here.
    Adopted,
}

/// Why a child was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgetting {
    /// It never called again after its birth, or it is gone and never took part in anything.
    Ghost,
    /// Another id has taken its place.
    Replaced,
    ByOperator,
}

/// A release as it was submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    pub id: ReleaseId,
    pub strategy: Arc<Strategy>,
    /// The YAML as sent.
    pub text: Arc<str>,
    /// Over the parsed strategy and the functions.
    pub digest: [u8; 32],
    /// Names the functions' archive in the store.
    pub archive: [u8; 32],
    /// `None`: a developer submitted it here.
    pub upstream: Option<Upstream>,
    /// It starts only when somebody says so.
    pub deferred: bool,
}

/// Who takes part in a release, and how many not, and why.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Membership {
    /// Ascending.
    pub members: Arc<[ChildKey]>,
    pub excluded: Vec<(Exclusion, u32)>,
    /// The wave of each member, from 0, in their order. Empty: all are in the first.
    pub waves: Vec<u32>,
    /// Those of them that are managers themselves.
    pub managers: BTreeMap<ChildKey, Planned>,
    /// The functions that each member does not run, in their order. Empty: all run all.
    pub lacks: Vec<FunctionSet>,
    /// Agents that come last because they are silent.
    pub left_out: u32,
}

/// One change of the state. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    ChildArrived {
        child: ChildKey,
        arrival: Arrival,
        record: Box<Child>,
    },
    /// The first call after its birth: it is no ghost.
    ChildCalledAgain {
        child: ChildKey,
    },
    ChildMoved {
        child: ChildKey,
        area: Option<Arc<str>>,
    },
    /// It calls from another address than before.
    ChildCalledFrom {
        child: ChildKey,
        address: IpAddr,
    },
    /// One that brought its id along has taken part in something.
    ChildProven {
        child: ChildKey,
    },
    /// Another id has taken its place.
    ChildReplaced {
        child: ChildKey,
        by: ChildKey,
        now: Now,
    },
    /// It calls again, although another seemed to have taken its place.
    ChildBack {
        child: ChildKey,
    },
    ChildReported {
        child: ChildKey,
        agents: u32,
        profile: Option<Box<Profile>>,
    },
    ChildLabelled {
        child: ChildKey,
        key: String,
        value: Option<String>,
    },
    ChildCordoned {
        child: ChildKey,
        cordon: Cordon,
    },
    ChildForgotten {
        child: ChildKey,
        id: ChildId,
        why: Forgetting,
    },

    ReleaseSubmitted {
        release: ReleaseKey,
        submitted: Box<Submitted>,
        now: Now,
    },
    ReleaseStarted {
        release: ReleaseKey,
        membership: Membership,
        now: Now,
    },
    ReleasePaused {
        release: ReleaseKey,
        pause: Pause,
        now: Now,
    },
    ReleaseResumed {
        release: ReleaseKey,
        now: Now,
    },
    /// It is taken back: everybody who may run the new version is offered the undo.
    ReleaseAborted {
        release: ReleaseKey,
        why: Box<Ending>,
        /// How it ends then: `Aborted` by an operator, `RolledBack` by its own rules.
        end: End,
        now: Now,
    },
    /// The first child that ended badly, for whoever asks later.
    FaultNoted {
        release: ReleaseKey,
        child: ChildKey,
        ending: Box<Ending>,
    },
    /// The parent is told anew what became of the agents.
    Recounted {
        release: ReleaseKey,
    },
    /// The manager above holds a release that came from it, or does so no longer.
    HeldAbove {
        release: ReleaseKey,
        held: bool,
    },
    ReleaseRetried {
        release: ReleaseKey,
        now: Now,
    },
    StageEnded {
        release: ReleaseKey,
        stage: u8,
        now: Now,
    },
    /// Nobody begins this stage any more. Those before it go on with `then`, as if it had succeeded.
    StageSkipped {
        release: ReleaseKey,
        stage: u8,
        then: Piece,
        now: Now,
    },
    /// Those that were left untested get the new version too: the others have passed.
    UntestedRolledOut {
        release: ReleaseKey,
        now: Now,
    },
    /// A child that was not there when the release started has a part in it now.
    ChildJoined {
        release: ReleaseKey,
        child: ChildKey,
        /// It goes on in the place of this one, which others wait for as they did for that.
        instead_of: Option<ChildKey>,
        /// The functions that it does not run.
        lacks: FunctionSet,
        now: Now,
    },
    /// Nobody has to come to this gate any more; it soaks, or an approval is awaited.
    GateReached {
        release: ReleaseKey,
        gate: Gate,
        now: Now,
    },
    /// Somebody has to come there again: a child got another attempt, or joined.
    GateLeft {
        release: ReleaseKey,
    },
    /// Somebody must say yes before the gate that is reached opens.
    ApprovalAsked {
        release: ReleaseKey,
        /// What for, in words.
        what: String,
        now: Now,
    },
    ReleaseApproved {
        release: ReleaseKey,
        now: Now,
    },
    /// Managers below are asked who can take part. Not stored: after a restart they are asked again.
    TurnoutAsked {
        release: ReleaseKey,
        now: Now,
    },
    /// Waves that are not open hold others now: who is silent comes last.
    WavesPlanned {
        release: ReleaseKey,
        /// Who has their first turn, or the next, in another wave.
        moved: Vec<(ChildKey, u32)>,
        /// Managers whose agents are spread otherwise.
        managers: Vec<(ChildKey, Planned)>,
        /// Agents that come last because they are silent.
        left_out: u32,
        now: Now,
    },
    /// It had no participants, and is planned once more.
    ReleaseReplanned {
        release: ReleaseKey,
        now: Now,
    },
    /// The waves from one number to another are open.
    WavesOpened {
        release: ReleaseKey,
        from: u32,
        to: u32,
        now: Now,
    },
    /// A run of an analysis begins.
    AnalysisBegan {
        release: ReleaseKey,
        /// Its place in [`Strategy::analyses`].
        block: u8,
        number: u32,
        of: u32,
        now: Now,
    },
    /// The data of a run were looked at: it stands thus.
    Looked {
        release: ReleaseKey,
        run: Box<Run>,
    },
    /// A stage, or a step of the whole release (no stage), began or ended on the wall's clock.
    StageTimed {
        release: ReleaseKey,
        stage: Option<u8>,
        /// The wave, or the step.
        number: u32,
        ended: bool,
        now: Now,
    },
    /// The verdict of a run has its consequence.
    VerdictGiven {
        release: ReleaseKey,
        block: u8,
        verdict: Verdict,
        why: String,
        standing: Standing,
        now: Now,
    },
    /// A run goes on after an end that decided nothing, or will.
    AnalysisExtended {
        release: ReleaseKey,
        block: u8,
        extended: Extended,
        now: Now,
    },
    /// All barriers below this level are open.
    LevelOpened {
        release: ReleaseKey,
        level: u8,
        now: Now,
    },
    ReleaseEnded {
        release: ReleaseKey,
        end: End,
        unconfirmed: u32,
        now: Now,
    },
    /// This is how a stage ended here, and the parent is to hear of it.
    StageReported {
        release: ReleaseKey,
        stage: u8,
        status: StageStatus,
        now: Now,
    },
    /// It is over, and old enough to leave the history.
    ReleaseRemoved {
        release: ReleaseKey,
        id: ReleaseId,
    },
    /// The manager above took a release over that reaches beyond this one's area.
    ReleaseForwarded {
        id: String,
        /// Where to ask for it.
        to: String,
    },
    /// The parent's next offer goes on with a release from above.
    ReleaseContinued {
        release: ReleaseKey,
        /// By which it is called there from now on.
        offer: String,
    },
    /// The parent wants to hear when a release is taken back.
    UndoAwaited {
        release: ReleaseKey,
        /// Its order to do so.
        offer: String,
    },
    /// It is taken back, and the parent is to hear of it.
    UndoReported {
        release: ReleaseKey,
        offer: String,
        unconfirmed: u32,
    },
    /// Children were looked at again, for who stands in whose place (`again`: the next looks), and others, whether they
    /// are still there: `gone` with the serving time at which that was due, and of those that stay, in `kept`, when
    /// they are looked at next.
    ChildrenSeen {
        looked: Vec<Recheck>,
        again: Vec<Recheck>,
        kept: Vec<(u64, ChildKey)>,
        gone: Vec<(u64, ChildKey)>,
    },
    /// The deadlines of this release were looked through, as far as to the child `after`; of those that were, none is due
    /// before.
    DeadlinesSeen {
        release: ReleaseKey,
        next: ReleaseMs,
        /// `None`: all were.
        after: Option<ChildKey>,
    },

    Child {
        release: ReleaseKey,
        child: ChildKey,
        step: Step,
        at: ReleaseMs,
        summary: Option<Box<Kept>>,
    },
    /// Preliminary numbers, refreshed. `status`: whether the child is ready to end the stage.
    Numbers {
        release: ReleaseKey,
        child: ChildKey,
        slot: super::assignment::Slot,
        status: StageStatus,
        summary: Box<Kept>,
    },
    /// A result that came too late to count is kept in the audit trail.
    LateKept {
        release: ReleaseKey,
        child: ChildKey,
        stage: Option<String>,
        summary: Box<Summary>,
    },
    Deployed {
        child: ChildKey,
        release: ReleaseKey,
        function: usize,
        variant: Variant,
    },
}

/// What runs of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    Base,
    New,
    /// The child vanished in the middle of a test.
    Unknown,
}

impl Variant {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::New => "new",
            Self::Unknown => "unknown",
        }
    }
}

impl Change {
    /// The release it belongs to.
    pub fn release(&self) -> Option<ReleaseKey> {
        match self {
            Self::ChildArrived { .. }
            | Self::ChildCalledAgain { .. }
            | Self::ChildMoved { .. }
            | Self::ChildCalledFrom { .. }
            | Self::ChildProven { .. }
            | Self::ChildReplaced { .. }
            | Self::ChildBack { .. }
            | Self::ChildReported { .. }
            | Self::ChildLabelled { .. }
            | Self::ChildCordoned { .. }
            | Self::ChildForgotten { .. }
            | Self::ReleaseForwarded { .. }
            | Self::ChildrenSeen { .. } => None,
            Self::ReleaseSubmitted { release, .. }
            | Self::ReleaseStarted { release, .. }
            | Self::ReleasePaused { release, .. }
            | Self::ReleaseResumed { release, .. }
            | Self::ReleaseAborted { release, .. }
            | Self::ReleaseRemoved { release, .. }
            | Self::FaultNoted { release, .. }
            | Self::Recounted { release }
            | Self::HeldAbove { release, .. }
            | Self::ReleaseRetried { release, .. }
            | Self::StageEnded { release, .. }
            | Self::StageSkipped { release, .. }
            | Self::UntestedRolledOut { release, .. }
            | Self::ChildJoined { release, .. }
            | Self::GateReached { release, .. }
            | Self::GateLeft { release }
            | Self::ApprovalAsked { release, .. }
            | Self::ReleaseApproved { release, .. }
            | Self::TurnoutAsked { release, .. }
            | Self::WavesPlanned { release, .. }
            | Self::ReleaseReplanned { release, .. }
            | Self::WavesOpened { release, .. }
            | Self::LevelOpened { release, .. }
            | Self::AnalysisBegan { release, .. }
            | Self::Looked { release, .. }
            | Self::VerdictGiven { release, .. }
            | Self::AnalysisExtended { release, .. }
            | Self::StageTimed { release, .. }
            | Self::ReleaseEnded { release, .. }
            | Self::StageReported { release, .. }
            | Self::ReleaseContinued { release, .. }
            | Self::UndoAwaited { release, .. }
            | Self::UndoReported { release, .. }
            | Self::DeadlinesSeen { release, .. }
            | Self::Child { release, .. }
            | Self::Numbers { release, .. }
            | Self::LateKept { release, .. }
            | Self::Deployed { release, .. } => Some(*release),
        }
    }

    /// The child it concerns, if it is one.
    pub fn child(&self) -> Option<ChildKey> {
        match self {
            Self::ChildArrived { child, .. }
            | Self::ChildCalledAgain { child }
            | Self::ChildMoved { child, .. }
            | Self::ChildCalledFrom { child, .. }
            | Self::ChildProven { child }
            | Self::ChildReplaced { child, .. }
            | Self::ChildBack { child }
            | Self::ChildReported { child, .. }
            | Self::ChildLabelled { child, .. }
            | Self::ChildCordoned { child, .. }
            | Self::ChildForgotten { child, .. }
            | Self::Child { child, .. }
            | Self::ChildJoined { child, .. }
            | Self::Numbers { child, .. }
            | Self::LateKept { child, .. }
            | Self::Deployed { child, .. } => Some(*child),
            _ => None,
        }
    }
}
