//! One child in one release: the state machine, and nothing that knows of other children.
//!
//! It moves by [`Step`]s, which concern this child alone, and by [`ReleaseEvent`]s, which concern the whole release and
//! are folded into each assignment. Both are infallible: whether a step is right was decided before.
//!
//! Invariants:
//! - within an attempt neither `status` nor the status of a stage moves backwards;
//! - `tainted` holds every function of which the child may run the new version without a roll-out having ended
//!   well: only proof that the base version runs takes one out.

mod agents;
mod fold;
mod management_mode;
mod map_state;
mod moves;
mod part;
mod rare_fields;
mod rollback;
mod rollback_offer;
mod sets;
mod step;

use std::cmp::Ordering;

use super::{
    manager::Planned,
    offer::{OfferKind, OfferName, Unit},
};
use language::{Stage, StageKind, Strategy};
use model::{ChildStatus, Exclusion, Outcome, StageStatus};

pub use super::clock::ReleaseMs;
pub use management_mode::{InPlace, ManagementMode, Stepwise, Whole};
pub use rare_fields::{Idle, Keeping, Rare, RareSteps, Rarely};
pub use rollback_offer::{LONGEST_REST_MS, Undo};
pub use sets::{FunctionSet, StageSet, StepIndex};
pub use step::{Dated, ReleaseEvent, Shows, Step};

/// Most results that came too late and are remembered, so that a repeat of one changes nothing more.
pub const MAX_LATE: usize = 4;

/// A result that is stored: enough to know a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultDigest {
    pub attempt: u16,
    pub slot: StepIndex,
    pub status: StageStatus,
    pub digest: u64,
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
    /// How it is led, and what only those have that are led so.
    pub led: ManagementMode,
    /// Whether the current offer was downloaded.
    pub fetched: bool,
    pub slot: StepIndex,
    pub stage_status: StageStatus,
    /// In which it has its turn, from 0.
    pub wave: u32,
    /// When it was offered, fetched, or last reported.
    pub since: ReleaseMs,
    /// When the current stage began.
    pub stage_since: ReleaseMs,
    /// Polls since the download or the last report.
    pub polls: u8,
    pub tainted: FunctionSet,
    pub rolled_out: FunctionSet,
    /// How many facts of the release are folded in.
    pub facts: u16,
    /// `None` until something is reported.
    pub heard: Option<Box<ReceivedResults>>,
}

/// A release may have a million members, and each byte is there as often.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Assignment>() == 72, "an assignment has grown");

/// What was heard of a child.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReceivedResults {
    pub marks: Vec<ResultDigest>,
    /// Digests of the last results that came too late, at most [`MAX_LATE`].
    pub late: Vec<u64>,
}

impl Assignment {
    /// Where it stands, if it is led piece by piece.
    pub const fn stepwise(&self) -> Option<&Stepwise> {
        match &self.led {
            ManagementMode::Stepwise(steps) => Some(steps),
            ManagementMode::InPlace(_) | ManagementMode::Whole(_) => None,
        }
    }

    pub(super) const fn stepwise_mut(&mut self) -> Option<&mut Stepwise> {
        match &mut self.led {
            ManagementMode::Stepwise(steps) => Some(steps),
            ManagementMode::InPlace(_) | ManagementMode::Whole(_) => None,
        }
    }

    /// Whether a poll says nothing of what it has in hand; `leads_itself`: whether it says that it takes whole strategies. Such an
    /// agent always has a call open; another that has taken its place under its id has nothing of it.
    pub fn polls_always(&self, leads_itself: bool) -> bool {
        let is_rollout = matches!(self.piece(), Unit::Rollout(_));
        let goes_back = self.pending_undo().is_some_and(|undo| undo.fetched);
        leads_itself && (self.is_in_place() || is_rollout || goes_back)
    }

    /// Whether it is an agent that walks through the whole strategy by itself.
    pub const fn is_in_place(&self) -> bool {
        matches!(self.led, ManagementMode::InPlace(_))
    }

    /// What is known of it, if it leads children of its own through the strategy.
    pub fn whole(&self) -> Option<&Whole> {
        match &self.led {
            ManagementMode::Stepwise(_) | ManagementMode::InPlace(_) => None,
            ManagementMode::Whole(whole) => Some(whole),
        }
    }

    pub fn whole_mut(&mut self) -> Option<&mut Whole> {
        match &mut self.led {
            ManagementMode::Stepwise(_) | ManagementMode::InPlace(_) => None,
            ManagementMode::Whole(whole) => Some(whole),
        }
    }

    /// Whether it leads children of its own through the strategy.
    pub const fn is_whole(&self) -> bool {
        matches!(self.led, ManagementMode::Whole(_))
    }

    /// Whether it waits in this stage until it is told to end it, as every agent does.
    pub fn ends_on_signal(&self, stage: usize, strategy: &Strategy) -> bool {
        match &self.led {
            ManagementMode::Stepwise(_) | ManagementMode::InPlace(_) => true,
            ManagementMode::Whole(_) => {
                let waits = |stage: &Stage| stage.kind == StageKind::WaitForSignal;
                strategy.rollout.is_some() || strategy.stages.get(stage).is_some_and(waits)
            }
        }
    }

    /// What the current offer hands out.
    pub fn piece(&self) -> Unit {
        self.stepwise().map_or(Unit::Whole, |steps| steps.piece)
    }

    /// What most don't have, however they are led.
    pub fn rare(&self) -> &Rare {
        match &self.led {
            ManagementMode::Stepwise(steps) => &steps.rare.rare,
            ManagementMode::InPlace(agent) => &agent.rare,
            ManagementMode::Whole(whole) => &whole.rare,
        }
    }

    pub fn change_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        match &mut self.led {
            ManagementMode::Stepwise(steps) => steps.rare.change(|steps| change(&mut steps.rare)),
            ManagementMode::InPlace(agent) => change(&mut agent.rare),
            ManagementMode::Whole(whole) => change(&mut whole.rare),
        }
    }

    /// Its last undo, if it was ever offered one.
    pub fn undo(&self) -> Option<&Undo> {
        self.rare().undo.as_deref()
    }

    pub(super) fn change_undo(&mut self, change: impl FnOnce(&mut Undo)) {
        let undo = match &mut self.led {
            ManagementMode::Stepwise(steps) => steps.rare.undo_mut(),
            ManagementMode::InPlace(agent) => agent.rare.undo.as_deref_mut(),
            ManagementMode::Whole(whole) => whole.rare.undo.as_deref_mut(),
        };
        if let Some(undo) = undo {
            change(undo);
        }
    }

    /// Functions that it does not run. Who has the whole strategy in hand sees to that for those below.
    pub fn lacks(&self) -> FunctionSet {
        self.stepwise().map_or(FunctionSet::EMPTY, |steps| steps.rare.lacks)
    }

    /// Stages that it passed over when their offers may have been shown already.
    pub fn passed(&self) -> StageSet {
        self.stepwise().map_or(StageSet::EMPTY, |steps| steps.rare.passed)
    }

    /// Whether it has one of the places that `max_in_progress` gives; `None`: it needs none, for it gives places of its own.
    fn place(&self) -> Option<bool> {
        match &self.led {
            ManagementMode::Stepwise(steps) => Some(steps.admitted),
            ManagementMode::InPlace(agent) => Some(agent.admitted),
            ManagementMode::Whole(_) => None,
        }
    }

    /// Whether it has one of the places that `max_in_progress` gives.
    pub fn is_admitted(&self) -> bool {
        self.place() == Some(true)
    }

    /// Whether it needs one of these places and has none.
    pub fn needs_place(&self) -> bool {
        self.place() == Some(false)
    }

    pub(super) fn set_admitted(&mut self, is_admitted: bool) {
        match &mut self.led {
            ManagementMode::Stepwise(steps) => steps.admitted = is_admitted,
            ManagementMode::InPlace(agent) => agent.admitted = is_admitted,
            ManagementMode::Whole(_) => {}
        }
    }

    /// `None`: its stage was tried once, and waits for no calls.
    pub fn idle(&self) -> Option<Idle> {
        match &self.led {
            ManagementMode::Stepwise(steps) => steps.rare.idle,
            ManagementMode::InPlace(agent) => agent.idle,
            ManagementMode::Whole(_) => None,
        }
    }

    pub(super) fn set_idle(&mut self, idle: Option<Idle>) {
        match &mut self.led {
            ManagementMode::Stepwise(steps) => steps.rare.change(|rare| rare.idle = idle),
            ManagementMode::InPlace(agent) => agent.idle = idle,
            ManagementMode::Whole(_) => {}
        }
    }

    /// Whether its stage has failed and keeps its shares, and nobody has decided what becomes of them.
    pub fn is_undecided(&self) -> bool {
        self.rare().kept == Some(Keeping::Undecided)
    }

    /// Whether it was told to end its stage for want of calls.
    pub fn is_told_idle(&self) -> bool {
        self.idle().is_some_and(|idle| idle.told)
    }
}

impl Assignment {
    /// The results that are stored, oldest first.
    pub fn marks(&self) -> &[ResultDigest] {
        self.heard.as_deref().map(|heard| heard.marks.as_slice()).unwrap_or_default()
    }

    /// Digests of the last results that came too late.
    pub fn late(&self) -> &[u64] {
        self.heard.as_deref().map(|heard| heard.late.as_slice()).unwrap_or_default()
    }

    pub fn heard_mut(&mut self) -> &mut ReceivedResults {
        self.heard.get_or_insert_default()
    }

    /// An agent that walks through the whole strategy by itself, and has not acted yet.
    pub fn new_in_place(at: ReleaseMs) -> Self {
        Self { led: ManagementMode::InPlace(Box::default()), slot: Unit::Whole.slot(), ..Self::new(at) }
    }

    /// A child that is led whole and has not acted yet.
    pub fn new_whole(planned: Planned, at: ReleaseMs) -> Self {
        Self {
            led: ManagementMode::Whole(Box::new(Whole::new(planned))),
            slot: Unit::Whole.slot(),
            ..Self::new(at)
        }
    }

    /// A child that is led stepwise and has not acted yet.
    pub fn new(at: ReleaseMs) -> Self {
        Self {
            status: ChildStatus::Todo,
            outcome: None,
            attempt: 1,
            named: 1,
            led: ManagementMode::Stepwise(Stepwise::new()),
            fetched: false,
            wave: 0,
            slot: Unit::FIRST.slot(),
            stage_status: StageStatus::Pending,
            since: at,
            stage_since: at,
            polls: 0,
            tainted: FunctionSet::EMPTY,
            rolled_out: FunctionSet::EMPTY,
            facts: 0,
            heard: None,
        }
    }

    /// The part of a child that stands in for another: it only takes back what that one left behind.
    pub fn stand_in(at: ReleaseMs, facts: u16) -> Self {
        let outcome = Some(Outcome::Excluded(Exclusion::Successor));
        Self { status: ChildStatus::No, outcome, facts, ..Self::new(at) }
    }

    /// The name of the current offer, undos aside.
    pub fn offer_name(&self) -> OfferName {
        OfferName::of(self.piece(), self.named)
    }

    /// Whether the release must still wait for this child.
    pub fn is_awaited(&self) -> bool {
        !self.status.is_over() || self.pending_undo().is_some_and(|undo| !undo.overdue)
    }

    /// The functions of which the child may run the new version.
    pub fn may_run_new(&self) -> FunctionSet {
        self.tainted.union(self.rolled_out)
    }

    /// The result stored for a stage since the offers carry their current names: a child that was not lost after
    /// all goes on with the same offer.
    pub fn mark(&self, slot: StepIndex) -> Option<&ResultDigest> {
        self.marks().iter().find(|mark| mark.attempt >= self.named && mark.slot == slot)
    }

    /// Whether it downloaded an offer since the offers carry their current names.
    pub fn has_begun(&self) -> bool {
        self.fetched || self.marks().iter().any(|mark| mark.attempt >= self.named)
    }

    /// Whether this offer, which is no undo, is or was one of this child's.
    pub fn was_offered(&self, name: OfferName, strategy: &Strategy) -> bool {
        let Some(piece) = self.piece_of(name, strategy) else { return false };
        let stands_in_only = self.outcome == Some(Outcome::Excluded(Exclusion::Successor));
        match name.attempt.cmp(&self.named) {
            Ordering::Less => true,
            Ordering::Equal => {
                let was_passed = matches!(piece, Unit::Stage(stage) if self.passed().contains(stage));
                let is_current = name == self.offer_name() && !stands_in_only;
                is_current || was_passed || self.mark(piece.slot()).is_some()
            }
            Ordering::Greater => false,
        }
    }

    /// The piece that an offer hands out; `None` for an undo and for what this child is never handed.
    pub fn piece_of(&self, name: OfferName, strategy: &Strategy) -> Option<Unit> {
        let is_first = name.kind == OfferKind::First;
        match &self.led {
            ManagementMode::InPlace(_) | ManagementMode::Whole(_) => is_first.then_some(Unit::Whole),
            ManagementMode::Stepwise(steps) if is_first && name == self.offer_name() => Some(steps.piece),
            ManagementMode::Stepwise(_) => piece_of(name, strategy),
        }
    }

    /// The functions that the current offer changes.
    pub fn current_functions(&self, strategy: &Strategy) -> FunctionSet {
        match &self.led {
            ManagementMode::InPlace(_) | ManagementMode::Whole(_) => {
                let all = (0..strategy.subjects_count()).fold(FunctionSet::EMPTY, FunctionSet::with);
                all.minus(self.lacks_in(strategy))
            }
            ManagementMode::Stepwise(_) => FunctionSet::of(self.current_function(strategy)),
        }
    }

    /// Whether it has downloaded what it was offered, and neither ended it nor polled since. That it was taken back, or that
    /// nobody waits for it any more, the child doesn't know.
    pub fn is_in_hand(&self) -> bool {
        self.fetched && !self.stage_status.is_over() && self.polls == 0
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
            // Some of its agents ended badly, and the others not.
            Some(Outcome::Succeeded) => self.whole().is_some_and(|whole| whole.reported.bad() > 0),
            // Where another child stands in for it, that one is retried.
            Some(Outcome::Lost) => self.rare().successor.is_none(),
            Some(Outcome::Untested) => self.is_left_untested(),
            Some(Outcome::Undone | Outcome::Excluded(_)) | None => false,
        }
    }

    /// The function that the current offer changes.
    pub fn current_function(&self, strategy: &Strategy) -> usize {
        match self.piece() {
            Unit::Rollout(function) => usize::from(function),
            Unit::Whole | Unit::Stage(_) => {
                self.slot.stage_index().and_then(|i| strategy.stages.get(i)).map_or(0, |stage| stage.subject)
            }
        }
    }

    /// Whether it runs this stage and has not been told to end it.
    pub fn is_in(&self, stage: usize) -> bool {
        let runs = matches!(self.stage_status, StageStatus::InProgress | StageStatus::SuccessWaiting);
        self.status == ChildStatus::Doing && self.slot.stage_index() == Some(stage) && runs
    }

    /// When the stage it is in began for the first time.
    pub fn stage_begun(&self) -> ReleaseMs {
        self.idle().map_or(self.stage_since, |idle| idle.since)
    }

    /// Whether it was left untested, and nothing else was offered to it.
    pub fn is_left_untested(&self) -> bool {
        let is_left = self.status.is_over() && self.outcome == Some(Outcome::Untested);
        is_left && !self.is_whole() && self.rare().successor.is_none() && self.may_run_new().is_empty()
    }
}

/// The piece that an offer hands to an agent; `None` for an undo and for what this strategy never hands out.
fn piece_of(name: OfferName, strategy: &Strategy) -> Option<Unit> {
    match name.kind {
        OfferKind::First => Some(Unit::FIRST),
        OfferKind::Stage(stage) if usize::from(stage) < strategy.stages.len() => Some(Unit::Stage(stage)),
        OfferKind::Rollout(function) if usize::from(function) < strategy.subjects_count() => {
            Some(Unit::Rollout(function))
        }
        OfferKind::Stage(_) | OfferKind::Rollout(_) | OfferKind::Undo(_) => None,
    }
}
