//! What happens to one child in a release, and to all of them at once.

use super::{FunctionSet, StepIndex};
use crate::release::clock::ReleaseMs;
use crate::release::{manager::Agents, offer::Unit};
use model::{ChildKey, ChildStatus, Outcome, StageStatus};

/// What a reported stage shows of the versions that run at the child now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// It may be either.
    Nothing,
    Base,
    New,
}

/// What happens to one child in a release.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Its turn has come: nothing else keeps the child busy.
    Offered,
    /// It was given a place: its offer is shown from now on.
    Admitted,
    Fetched,
    /// It met the minima of a `WaitForSignal` stage and waits.
    Waiting {
        slot: StepIndex,
    },
    /// The stage has failed there and keeps its shares; it waits for what people decide.
    Kept {
        slot: StepIndex,
    },
    /// Below this manager a stage has failed and keeps its shares, which it told for the how manyth time; it waits for what people decide.
    KeptBelow {
        slot: StepIndex,
        number: u32,
    },
    /// The signal to end the stage is given.
    Signalled,
    /// So it is because the stage does not get the calls it needs.
    SignalledIdle,
    /// The stage ended without a call of the new version, and is offered again as a new attempt.
    StageAgain {
        /// Not before this serving time, in milliseconds.
        rests_until: Option<u64>,
    },
    /// A stage ended at the child.
    Reported {
        slot: StepIndex,
        status: StageStatus,
        digest: u64,
        shows: Shows,
        why: Option<String>,
    },
    /// The next stage of the same offer runs.
    StageBegan {
        slot: StepIndex,
    },
    /// A manager said what became of its agents; after it was done, for the how manyth time.
    Counted {
        agents: Agents,
        recount: Option<u32>,
    },
    /// A manager is done with one wave; more of its agents have their turn in a later one.
    NextWave {
        wave: u32,
    },
    /// The next offer waits.
    NextOffer {
        piece: Unit,
    },
    Ended {
        status: ChildStatus,
        outcome: Outcome,
    },
    /// It does not run these functions, and takes the whole strategy at once or doesn't; it has begun nothing yet.
    Lacks {
        functions: FunctionSet,
        in_place: bool,
    },
    /// An operator gave it alone another attempt.
    Retried,
    /// It polled although it should be busy.
    PolledWhileBusy,
    /// Another child took its place; `at_work`: that alone ended what it had begun.
    ReplacedBy {
        successor: ChildKey,
        at_work: bool,
    },
    /// It stands in for another child, with what that one may have left running.
    StandsInFor {
        predecessor: ChildKey,
        functions: FunctionSet,
        /// The predecessor's: it may go on in its place.
        wave: u32,
    },
    /// It was not lost after all: the same offer goes on as a new attempt.
    Reinstated,
    UndoOffered {
        functions: FunctionSet,
    },
    UndoFetched,
    /// The child failed its undo, or lost the result of it: another one is offered, not before this serving time in milliseconds.
    UndoFailed {
        rests_until: Option<u64>,
        why: Option<String>,
    },
    /// What it failed, or ended too soon, is offered again.
    Rested,
    UndoConfirmed {
        function: u8,
    },
    /// Nobody waits for it any longer.
    UndoOverdue,
    /// A later release changed the function, or the child is gone: nothing is to be undone.
    UndoDropped,
    /// An operator of the agent has something else served than what the release left there: the base version, or one that is not
    /// known here.
    Replaced {
        function: u8,
        is_base: bool,
        why: Option<String>,
    },
    /// An operator of the agent has the new version that the release left there serve again.
    Restored {
        function: u8,
        why: Option<String>,
    },
    /// A result that came too late to count.
    Late {
        slot: Option<StepIndex>,
        status: StageStatus,
        shows: Shows,
        /// By which a repeat is known.
        digest: u64,
    },
}

impl Step {
    /// Whether a child may have nothing in hand after it, and be free for another release.
    pub(in crate::release) const fn may_free(&self) -> bool {
        match self {
            Self::Ended { .. } | Self::UndoConfirmed { .. } | Self::UndoDropped => true,
            Self::Offered
            | Self::Admitted
            | Self::Fetched
            | Self::Waiting { .. }
            | Self::Kept { .. }
            | Self::KeptBelow { .. }
            | Self::Signalled
            | Self::SignalledIdle
            | Self::StageAgain { .. }
            | Self::Reported { .. }
            | Self::StageBegan { .. }
            | Self::Counted { .. }
            | Self::NextWave { .. }
            | Self::NextOffer { .. }
            | Self::Lacks { .. }
            | Self::Retried
            | Self::PolledWhileBusy
            | Self::ReplacedBy { .. }
            | Self::StandsInFor { .. }
            | Self::Reinstated
            | Self::UndoOffered { .. }
            | Self::UndoFetched
            | Self::UndoFailed { .. }
            | Self::Rested
            | Self::UndoOverdue
            | Self::Replaced { .. }
            | Self::Restored { .. }
            | Self::Late { .. } => false,
        }
    }
}

impl ReleaseEvent {
    /// The stage that nobody begins any more by this, and what comes in its place.
    pub(in crate::release) const fn skipped(self) -> Option<(u8, Unit)> {
        match self {
            Self::StageSkipped { stage, then } => Some((stage, then)),
            Self::Resumed { .. }
            | Self::FailuresAccepted { .. }
            | Self::Opened { .. }
            | Self::StageEnded { .. }
            | Self::UntestedRolledOut
            | Self::WinnerChosen { .. }
            | Self::SharesChosen { .. }
            | Self::Aborted
            | Self::RoutersBack
            | Self::Retried => None,
        }
    }
}

impl ReleaseEvent {
    /// The variation that somebody chose by this to serve alone in the end, by its place in the strategy.
    pub const fn winner(self) -> Option<u8> {
        match self {
            Self::WinnerChosen { variation } => Some(variation),
            Self::Resumed { .. }
            | Self::FailuresAccepted { .. }
            | Self::Opened { .. }
            | Self::StageEnded { .. }
            | Self::UntestedRolledOut
            | Self::StageSkipped { .. }
            | Self::SharesChosen { .. }
            | Self::Aborted
            | Self::RoutersBack
            | Self::Retried => None,
        }
    }

    /// The stage that has other shares by this, and what its one variation beside the stable one gets, in units of 0.01 %.
    pub const fn shares(self) -> Option<(u8, u16)> {
        match self {
            Self::SharesChosen { stage, new } => Some((stage, new)),
            Self::Resumed { .. }
            | Self::FailuresAccepted { .. }
            | Self::Opened { .. }
            | Self::StageEnded { .. }
            | Self::UntestedRolledOut
            | Self::StageSkipped { .. }
            | Self::WinnerChosen { .. }
            | Self::Aborted
            | Self::RoutersBack
            | Self::Retried => None,
        }
    }
}

/// What happens to a whole release at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseEvent {
    /// The barriers below `level` are open.
    Resumed {
        level: u8,
    },
    /// So are those below this level from now on.
    Opened {
        level: u8,
    },
    /// Above it is decided to go on from the stages that have failed and kept their shares.
    FailuresAccepted {
        /// As of [`Self::Resumed`].
        level: u8,
    },
    /// An operator ended this stage for everybody who is in it.
    StageEnded {
        stage: u8,
    },
    /// Those that were left untested get the new version too: the others have passed.
    UntestedRolledOut,
    /// An operator wants nobody to begin this stage any more: who would has this instead.
    StageSkipped {
        stage: u8,
        then: Unit,
    },
    /// An operator wants this variation of the release's service, by its place in the strategy, to serve alone in the end. The last
    /// such fact counts.
    WinnerChosen {
        variation: u8,
    },
    /// An operator wants the one variation beside the stable one to get so much in this stage, in units of 0.01 %. The last such fact of a
    /// stage counts.
    SharesChosen {
        stage: u8,
        new: u16,
    },
    Aborted,
    /// The routers of a hybrid that is taken back have proven that they are back: its agents follow.
    RoutersBack,
    Retried,
}

/// A fact and when it became one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dated {
    pub fact: ReleaseEvent,
    pub at: ReleaseMs,
}
