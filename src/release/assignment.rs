//! One child in one release: the state machine, and nothing that knows of other children.
//!
//! It moves by [`Step`]s, which concern this child alone, and by [`Fact`]s, which concern the whole release and
//! are folded into each assignment. Both are infallible: whether a step is right was decided before.
//!
//! Invariants:
//! - within an attempt neither `status` nor the status of a stage moves backwards;
//! - `tainted` holds every function of which the child may run the new version without a roll-out having ended
//!   well: only proof that the base version runs takes one out.

use serde::{Deserialize, Serialize};

use super::offer::{MAX_UNDO, OfferName, Piece};
use crate::{
    model::{ChildKey, ChildStatus, Exclusion, Outcome, StageStatus},
    strategy::Strategy,
};

/// Milliseconds of a release's own clock: serving time, without pauses.
pub type ReleaseMs = u64;

/// A set of functions of one strategy, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FunctionSet(pub u64);

impl FunctionSet {
    pub const EMPTY: Self = Self(0);

    pub const fn of(function: usize) -> Self {
        Self(1 << function)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn with(self, function: usize) -> Self {
        Self(self.0 | 1 << function)
    }

    #[must_use]
    pub const fn without(self, function: usize) -> Self {
        Self(self.0 & !(1 << function))
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn contains(self, function: usize) -> bool {
        self.0 & (1 << function) != 0
    }

    pub const fn first(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as usize) }
    }

    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |function| self.contains(*function))
    }
}

/// Numbers the stages of the strategy, and after them the roll-outs, in one small space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u8);

/// The slots from here on are roll-outs of functions.
const FIRST_ROLLOUT_SLOT: u8 = 64;

impl Slot {
    pub const fn stage(index: usize) -> Self {
        Self(index as u8)
    }

    pub const fn rollout(function: u8) -> Self {
        Self(FIRST_ROLLOUT_SLOT + function)
    }

    /// The index of the stage in the strategy; `None` for a roll-out.
    pub const fn stage_index(self) -> Option<usize> {
        if self.0 < FIRST_ROLLOUT_SLOT { Some(self.0 as usize) } else { None }
    }

    /// The index of the function that the stage tests or the roll-out changes.
    pub fn function(self, strategy: &Strategy) -> usize {
        match self.stage_index() {
            Some(stage) => strategy.stages.get(stage).map_or(0, |stage| stage.function),
            None => usize::from(self.0 - FIRST_ROLLOUT_SLOT),
        }
    }
}

/// A result that is stored: enough to know a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub attempt: u16,
    pub slot: Slot,
    pub status: StageStatus,
    pub digest: u64,
}

/// A child is to go back to the base version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// From 1; names the offer.
    pub number: u16,
    /// What is still to be undone; the first is being undone. Empty: all confirmed.
    pub functions: FunctionSet,
    pub fetched: bool,
    pub since: ReleaseMs,
    /// Polls since it was fetched.
    pub polls: u8,
    /// The release waits for it no longer; the offer stands.
    pub overdue: bool,
}

impl Undo {
    pub const fn is_pending(&self) -> bool {
        !self.functions.is_empty()
    }
}

/// What a reported stage shows of the versions that run at the child now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shows {
    /// It may be either.
    Nothing,
    Base,
    New,
}

/// What happens to one child in a release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum Step {
    /// Its turn has come: nothing else keeps the child busy.
    Offered,
    Fetched,
    /// It met the minima of a `WaitForSignal` stage and waits.
    Waiting {
        slot: Slot,
    },
    /// The signal to end the stage is given.
    Signalled,
    /// A stage ended at the child.
    Reported {
        slot: Slot,
        status: StageStatus,
        digest: u64,
        shows: Shows,
        why: Option<String>,
    },
    /// The next stage of the same offer runs.
    StageBegan {
        slot: Slot,
    },
    /// The next offer waits.
    NextOffer {
        piece: Piece,
    },
    Ended {
        status: ChildStatus,
        outcome: Outcome,
    },
    /// It polled although it should be busy.
    PolledWhileBusy,
    /// Another child took its place.
    ReplacedBy {
        successor: ChildKey,
    },
    /// It stands in for another child, with what that one may have left running.
    StandsInFor {
        predecessor: ChildKey,
        functions: FunctionSet,
    },
    /// It was not lost after all: the same offer goes on as a new attempt.
    Reinstated,
    UndoOffered {
        functions: FunctionSet,
    },
    UndoFetched,
    UndoConfirmed {
        function: u8,
    },
    /// Nobody waits for it any longer.
    UndoOverdue,
    /// A later release changed the function, or the child is gone: nothing is to be undone.
    UndoDropped,
    /// A result that came too late to count.
    Late {
        slot: Option<Slot>,
        status: StageStatus,
        shows: Shows,
    },
}

/// What happens to a whole release at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact")]
pub enum Fact {
    Resumed,
    /// An operator ended this stage for everybody who is in it.
    StageEnded {
        stage: u8,
    },
    Aborted,
    Retried,
}

/// A fact and when it became one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dated {
    #[serde(flatten)]
    pub fact: Fact,
    pub at: ReleaseMs,
}

/// A child in a release.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub status: ChildStatus,
    pub outcome: Option<Outcome>,
    /// From 1. Goes up with every retry, and when a lost child turns out not to be.
    pub attempt: u16,
    /// The attempt that the names of its offers carry.
    pub named: u16,
    pub piece: Piece,
    /// Whether the current offer was downloaded.
    pub fetched: bool,
    pub slot: Slot,
    pub stage_status: StageStatus,
    /// When it was offered, fetched, or last reported.
    pub since: ReleaseMs,
    /// When the current stage began.
    pub stage_since: ReleaseMs,
    /// Polls since the download or the last report.
    pub polls: u8,
    pub tainted: FunctionSet,
    pub rolled_out: FunctionSet,
    pub undo: Option<Box<Undo>>,
    pub successor: Option<ChildKey>,
    pub predecessor: Option<ChildKey>,
    /// How many facts of the release are folded in.
    pub facts: u16,
    pub marks: Vec<Mark>,
}

impl Assignment {
    /// A member of a release that has not acted yet.
    pub fn new(strategy: &Strategy, at: ReleaseMs) -> Self {
        Self {
            status: ChildStatus::Todo,
            outcome: None,
            attempt: 1,
            named: 1,
            piece: first_piece(strategy),
            fetched: false,
            slot: Slot::stage(0),
            stage_status: StageStatus::Pending,
            since: at,
            stage_since: at,
            polls: 0,
            tainted: FunctionSet::EMPTY,
            rolled_out: FunctionSet::EMPTY,
            undo: None,
            successor: None,
            predecessor: None,
            facts: 0,
            marks: Vec::new(),
        }
    }

    /// The name of the current offer, undos aside.
    pub fn offer_name(&self) -> OfferName {
        OfferName::of(self.piece, self.named)
    }

    /// An undo that is not confirmed.
    pub fn pending_undo(&self) -> Option<&Undo> {
        self.undo.as_deref().filter(|undo| undo.is_pending())
    }

    /// Whether the release must still wait for this child.
    pub fn is_awaited(&self) -> bool {
        !self.status.is_over() || self.pending_undo().is_some_and(|undo| !undo.overdue)
    }

    /// The functions of which the child may run the new version.
    pub fn may_run_new(&self) -> FunctionSet {
        self.tainted.union(self.rolled_out)
    }

    /// The result stored for a stage in this attempt.
    pub fn mark(&self, slot: Slot) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.attempt == self.attempt && mark.slot == slot)
    }

    /// Whether a retry takes this child.
    pub fn is_retryable(&self) -> bool {
        match self.outcome {
            Some(
                Outcome::Failed
                | Outcome::TimedOut
                | Outcome::Unreachable
                | Outcome::Excluded(Exclusion::Successor),
            ) => true,
            // Where another child stands in for it, that one is retried.
            Some(Outcome::Lost) => self.successor.is_none(),
            _ => false,
        }
    }

    /// The function that the current offer changes.
    pub fn current_function(&self, strategy: &Strategy) -> usize {
        match self.piece {
            Piece::Rollout(function) => usize::from(function),
            Piece::Whole | Piece::Stage(_) => {
                self.slot.stage_index().and_then(|i| strategy.stages.get(i)).map_or(0, |stage| stage.function)
            }
        }
    }

    /// Folds one step in.
    pub fn apply(&mut self, step: &Step, strategy: &Strategy, at: ReleaseMs) {
        match step {
            Step::Offered => self.since = at,
            Step::Fetched => self.fetch(strategy, at),
            Step::Waiting { .. } => {
                self.stage_status = self.stage_status.max(StageStatus::SuccessWaiting);
                self.since = at;
                self.polls = 0;
            }
            Step::Signalled => {
                self.stage_status = self.stage_status.max(StageStatus::ShouldEnd);
                self.since = at;
            }
            Step::Reported { slot, status, digest, shows, .. } => {
                self.report(*slot, *status, *digest, *shows, strategy, at);
            }
            Step::StageBegan { slot } => {
                self.begin(*slot, StageStatus::InProgress, at);
            }
            Step::NextOffer { piece } => {
                self.piece = *piece;
                self.fetched = false;
                let slot = match piece {
                    Piece::Whole => Slot::stage(0),
                    Piece::Stage(index) => Slot(*index),
                    Piece::Rollout(function) => Slot::rollout(*function),
                };
                self.begin(slot, StageStatus::Pending, at);
            }
            Step::Ended { status, outcome } => {
                self.status = *status;
                self.outcome = Some(*outcome);
                self.since = at;
                if *outcome == Outcome::Succeeded {
                    self.tainted = FunctionSet::EMPTY;
                }
            }
            Step::PolledWhileBusy => match self.undo.as_deref_mut().filter(|undo| undo.fetched) {
                Some(undo) => undo.polls = undo.polls.saturating_add(1),
                None => self.polls = self.polls.saturating_add(1),
            },
            Step::ReplacedBy { successor } => self.successor = Some(*successor),
            Step::StandsInFor { predecessor, functions } => {
                self.predecessor = Some(*predecessor);
                self.tainted = self.tainted.union(*functions);
            }
            Step::Reinstated => {
                self.status = ChildStatus::Doing;
                self.outcome = None;
                self.successor = None;
                self.attempt = self.attempt.saturating_add(1);
                self.since = at;
                self.polls = 0;
            }
            Step::UndoOffered { functions } => self.offer_undo(*functions, at),
            Step::UndoFetched => {
                if let Some(undo) = self.undo.as_deref_mut() {
                    undo.fetched = true;
                    undo.since = at;
                    undo.polls = 0;
                }
            }
            Step::UndoConfirmed { function } => self.confirm_undo(usize::from(*function), at),
            Step::UndoOverdue => {
                if let Some(undo) = self.undo.as_deref_mut() {
                    undo.overdue = true;
                }
            }
            Step::UndoDropped => {
                if let Some(undo) = self.undo.as_deref_mut() {
                    undo.functions = FunctionSet::EMPTY;
                }
            }
            Step::Late { shows, slot, .. } => {
                if *shows == Shows::New {
                    self.rolled_out = self.rolled_out.with(slot.map_or(0, |slot| slot.function(strategy)));
                }
            }
        }
    }

    /// Folds in a fact of the whole release.
    pub fn fold(&mut self, dated: &Dated, strategy: &Strategy) {
        match dated.fact {
            Fact::Resumed => {
                if self.status == ChildStatus::Doing && self.stage_status == StageStatus::SuccessWaiting {
                    self.apply(&Step::Signalled, strategy, dated.at);
                }
            }
            Fact::StageEnded { stage } => {
                let in_it = self.slot.stage_index() == Some(usize::from(stage));
                let runs = matches!(self.stage_status, StageStatus::InProgress | StageStatus::SuccessWaiting);
                if self.status == ChildStatus::Doing && in_it && runs {
                    self.apply(&Step::Signalled, strategy, dated.at);
                }
            }
            Fact::Aborted => self.abort(dated.at),
            Fact::Retried => {
                if self.is_retryable() {
                    self.retry(strategy, dated.at);
                }
            }
        }
        self.facts += 1;
    }

    fn fetch(&mut self, strategy: &Strategy, at: ReleaseMs) {
        self.status = ChildStatus::Doing;
        self.fetched = true;
        self.polls = 0;
        self.tainted = self.tainted.with(self.current_function(strategy));
        self.begin(self.slot, StageStatus::InProgress, at);
    }

    fn begin(&mut self, slot: Slot, status: StageStatus, at: ReleaseMs) {
        self.slot = slot;
        self.stage_status = status;
        self.since = at;
        self.stage_since = at;
    }

    fn report(
        &mut self,
        slot: Slot,
        status: StageStatus,
        digest: u64,
        shows: Shows,
        strategy: &Strategy,
        at: ReleaseMs,
    ) {
        let function = self.current_function(strategy);
        match shows {
            Shows::Nothing => {}
            Shows::Base => self.tainted = self.tainted.without(function),
            Shows::New => self.rolled_out = self.rolled_out.with(function),
        }
        self.stage_status = status;
        self.since = at;
        self.polls = 0;
        self.marks.push(Mark { attempt: self.attempt, slot, status, digest });
    }

    fn offer_undo(&mut self, functions: FunctionSet, at: ReleaseMs) {
        let before = self.undo.take();
        let number = before.as_ref().map_or(1, |undo| (undo.number + 1).min(MAX_UNDO));
        let overdue = before.is_some_and(|undo| undo.overdue && undo.is_pending());
        self.undo = Some(Box::new(Undo { number, functions, fetched: false, since: at, polls: 0, overdue }));
    }

    fn confirm_undo(&mut self, function: usize, at: ReleaseMs) {
        self.tainted = self.tainted.without(function);
        self.rolled_out = self.rolled_out.without(function);
        let Some(undo) = self.undo.as_deref_mut() else { return };
        undo.functions = undo.functions.without(function);
        if undo.is_pending() {
            undo.number = (undo.number + 1).min(MAX_UNDO);
            undo.fetched = false;
            undo.since = at;
            undo.polls = 0;
        } else if self.status.is_over() && !matches!(self.outcome, Some(Outcome::Excluded(_))) {
            self.outcome = Some(match self.outcome {
                // What went wrong first is what a person wants to know.
                Some(outcome) if outcome.is_failure() => outcome,
                _ => Outcome::Undone,
            });
        }
    }

    fn abort(&mut self, at: ReleaseMs) {
        match self.status {
            ChildStatus::Todo => {
                self.status = ChildStatus::No;
                self.outcome = Some(Outcome::Excluded(Exclusion::Aborted));
            }
            ChildStatus::Doing => {
                self.status = ChildStatus::Failed;
                self.outcome = self.may_run_new().is_empty().then_some(Outcome::Undone);
            }
            ChildStatus::No | ChildStatus::Done | ChildStatus::Failed => {}
        }
        if self.successor.is_none() && !self.may_run_new().is_empty() && self.pending_undo().is_none() {
            self.offer_undo(self.may_run_new(), at);
        }
    }

    fn retry(&mut self, strategy: &Strategy, at: ReleaseMs) {
        let fresh = Self::new(strategy, at);
        *self = Self {
            attempt: self.attempt + 1,
            named: self.attempt + 1,
            tainted: self.tainted,
            rolled_out: self.rolled_out,
            undo: self.undo.take(),
            predecessor: self.predecessor,
            facts: self.facts,
            marks: std::mem::take(&mut self.marks),
            ..fresh
        };
    }
}

/// What every child is offered first.
pub fn first_piece(strategy: &Strategy) -> Piece {
    if strategy.runs_whole() { Piece::Whole } else { Piece::Stage(0) }
}
