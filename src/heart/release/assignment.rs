//! One child in one release: the state machine, and nothing that knows of other children.
//!
//! It moves by [`Step`]s, which concern this child alone, and by [`Fact`]s, which concern the whole release and
//! are folded into each assignment. Both are infallible: whether a step is right was decided before.
//!
//! Invariants:
//! - within an attempt neither `status` nor the status of a stage moves backwards;
//! - `tainted` holds every function of which the child may run the new version without a roll-out having ended
//!   well: only proof that the base version runs takes one out.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{
    gate::Levels,
    manager::{Agents, Manager},
    offer::{MAX_UNDO, OfferKind, OfferName, Piece},
    rare::{Idle, Rare, Rarely},
};
use language::{Action, Strategy};
use model::{ChildKey, ChildStatus, Exclusion, Outcome, StageStatus};

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

    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
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

/// A set of stages of one strategy, by index; there are at most [`language::MAX_STAGES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StageSet(u64);

impl StageSet {
    pub const EMPTY: Self = Self(0);

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn with(self, stage: u8) -> Self {
        Self(self.0 | 1 << stage)
    }

    pub const fn contains(self, stage: u8) -> bool {
        self.0 & (1 << stage) != 0
    }
}

/// Numbers the stages of the strategy, and after them the roll-outs, in one small space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u8);

/// Most results that came too late and are remembered, so that a repeat of one changes nothing more.
pub const MAX_LATE: usize = 4;

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
    /// When the child was first asked for the first of [`Self::functions`]. The release waits so long, however often
    /// the undo is lost and offered again.
    #[serde(default)]
    pub asked: ReleaseMs,
    /// Polls since it was fetched.
    pub polls: u8,
    /// The release waits for it no longer; the offer stands.
    pub overdue: bool,
}

impl Undo {
    pub const fn is_pending(&self) -> bool {
        !self.functions.is_empty()
    }

    /// The child runs the base version of this function again: the next one's turn.
    fn confirm(&mut self, function: usize, at: ReleaseMs) {
        self.functions = self.functions.without(function);
        if self.is_pending() {
            self.number = (self.number + 1).min(MAX_UNDO);
            self.fetched = false;
            self.since = at;
            self.asked = at;
            self.polls = 0;
        }
    }

    /// Whether the child goes back right now.
    pub const fn is_in_hand(&self) -> bool {
        self.fetched && self.is_pending()
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
    /// It was given a place: its offer is shown from now on.
    Admitted,
    Fetched,
    /// It met the minima of a `WaitForSignal` stage and waits.
    Waiting {
        slot: Slot,
    },
    /// The signal to end the stage is given.
    Signalled,
    /// So it is because the stage does not get the calls it needs.
    SignalledIdle,
    /// The stage ended without a call of the new version, and is offered again as a new attempt.
    StageAgain,
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
    /// A manager said what became of its agents; after it was done, for the how manyth time.
    Counted {
        agents: Agents,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recount: Option<u32>,
    },
    /// A manager is done with one wave; more of its agents have their turn in a later one.
    NextWave {
        wave: u32,
    },
    /// The next offer waits.
    NextOffer {
        piece: Piece,
    },
    Ended {
        status: ChildStatus,
        outcome: Outcome,
    },
    /// It does not run these functions; it has begun nothing yet.
    Lacks {
        functions: FunctionSet,
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
        /// That of the other one: it may go on in its place.
        #[serde(default)]
        wave: u32,
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
        /// By which a repeat is known.
        #[serde(default)]
        digest: u64,
    },
}

/// What happens to a whole release at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact")]
pub enum Fact {
    /// The barriers below `level` are open.
    Resumed {
        level: u8,
    },
    /// So are those below this level from now on.
    Opened {
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
        then: Piece,
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
    /// Whether an earlier build handed it out, and lets the agent act on its own; see [`super::by_itself`].
    pub by_itself: bool,
    pub slot: Slot,
    pub stage_status: StageStatus,
    /// In which it has its turn, from 0.
    pub wave: u32,
    /// Whether it has one of the places that `max_in_progress` gives; its next offer is shown then.
    pub admitted: bool,
    /// When it was offered, fetched, or last reported.
    pub since: ReleaseMs,
    /// When the current stage began.
    pub stage_since: ReleaseMs,
    /// Polls since the download or the last report.
    pub polls: u8,
    pub tainted: FunctionSet,
    pub rolled_out: FunctionSet,
    /// What most don't have.
    pub rare: Rarely,
    /// How many facts of the release are folded in.
    pub facts: u16,
    /// `None` until something is reported.
    pub heard: Option<Box<Heard>>,
}

/// What was heard of a child.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heard {
    pub marks: Vec<Mark>,
    /// Digests of the last results that came too late, at most [`MAX_LATE`].
    pub late: Vec<u64>,
}

impl Assignment {
    /// The results that are stored, oldest first.
    pub fn marks(&self) -> &[Mark] {
        self.heard.as_deref().map(|heard| heard.marks.as_slice()).unwrap_or_default()
    }

    /// Digests of the last results that came too late.
    pub fn late(&self) -> &[u64] {
        self.heard.as_deref().map(|heard| heard.late.as_slice()).unwrap_or_default()
    }

    pub fn heard_mut(&mut self) -> &mut Heard {
        self.heard.get_or_insert_default()
    }

    /// A child manager that has not acted yet.
    pub fn of_manager(manager: Option<Box<Manager>>, at: ReleaseMs) -> Self {
        let agent = Self::new(at);
        if manager.is_none() {
            return agent;
        }
        let rare = Rare { manager, ..Rare::NOTHING }.into();
        Self { rare, piece: Piece::Whole, slot: Piece::Whole.slot(), ..agent }
    }

    /// An agent that has not acted yet.
    pub fn new(at: ReleaseMs) -> Self {
        Self {
            status: ChildStatus::Todo,
            outcome: None,
            attempt: 1,
            named: 1,
            piece: Piece::FIRST,
            fetched: false,
            by_itself: false,
            wave: 0,
            admitted: false,
            slot: Piece::FIRST.slot(),
            stage_status: StageStatus::Pending,
            since: at,
            stage_since: at,
            polls: 0,
            tainted: FunctionSet::EMPTY,
            rolled_out: FunctionSet::EMPTY,
            rare: Rarely::default(),
            facts: 0,
            heard: None,
        }
    }

    /// The same of an agent that does not run some functions.
    #[must_use]
    pub fn lacking(self, lacks: FunctionSet, strategy: &Strategy) -> Self {
        if lacks.is_empty() {
            return self;
        }
        let mut part = self;
        part.rare.change(|rare| rare.lacks = lacks);
        part.piece = part.fitting(part.piece, strategy).unwrap_or(part.piece);
        part.slot = part.piece.slot();
        part
    }

    /// What it runs in the place of a piece: itself, or what follows where it does not run that function; `None`: nothing
    /// is left for it.
    pub fn fitting(&self, piece: Piece, strategy: &Strategy) -> Option<Piece> {
        let rollout = |from: usize| {
            let mut rest = from..strategy.functions.len();
            rest.find(|function| !self.rare.lacks.contains(*function))
                .map(|function| Piece::Rollout(function as u8))
        };
        match piece {
            Piece::Whole => Some(Piece::Whole),
            Piece::Rollout(function) => rollout(usize::from(function)),
            Piece::Stage(stage) => {
                match strategy.without(self.rare.lacks.0, Action::Stage(usize::from(stage))) {
                    Action::Stage(stage) => Some(Piece::Stage(stage as u8)),
                    Action::Rollout => rollout(0),
                    Action::Rollback => None,
                }
            }
        }
    }

    /// The part of a child that stands in for another: it only takes back what that one left behind.
    pub fn stand_in(at: ReleaseMs, facts: u16) -> Self {
        let outcome = Some(Outcome::Excluded(Exclusion::Successor));
        Self { status: ChildStatus::No, outcome, facts, ..Self::new(at) }
    }

    /// The name of the current offer, undos aside.
    pub fn offer_name(&self) -> OfferName {
        OfferName::of(self.piece, self.named)
    }

    /// An undo that is not confirmed.
    pub fn pending_undo(&self) -> Option<&Undo> {
        self.rare.undo.as_deref().filter(|undo| undo.is_pending())
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
    pub fn mark(&self, slot: Slot) -> Option<&Mark> {
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
                let was_passed = matches!(piece, Piece::Stage(stage) if self.rare.passed.contains(stage));
                let is_current = name == self.offer_name() && !stands_in_only;
                is_current || was_passed || self.mark(piece.slot()).is_some()
            }
            Ordering::Greater => false,
        }
    }

    /// The piece that an offer hands out; `None` for an undo and for what this child is never handed.
    pub fn piece_of(&self, name: OfferName, strategy: &Strategy) -> Option<Piece> {
        let is_first = name.kind == OfferKind::First;
        match &self.rare.manager {
            Some(_) => is_first.then_some(Piece::Whole),
            None if is_first && name == self.offer_name() => Some(self.piece),
            // In an earlier attempt it may have been handed all stages.
            None if is_first && name.attempt < self.named && strategy.rollout.is_none() => Some(Piece::Whole),
            None => piece_of(name, strategy),
        }
    }

    /// The functions that the current offer changes.
    pub fn current_functions(&self, strategy: &Strategy) -> FunctionSet {
        match &self.rare.manager {
            Some(_) => (0..strategy.functions.len()).fold(FunctionSet::EMPTY, FunctionSet::with),
            None => FunctionSet::of(self.current_function(strategy)),
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
            Some(Outcome::Succeeded) => self.rare.manager.as_deref().is_some_and(|m| m.reported.bad() > 0),
            // Where another child stands in for it, that one is retried.
            Some(Outcome::Lost) => self.rare.successor.is_none(),
            Some(Outcome::Untested) => self.is_left_untested(),
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
            Step::Admitted => {
                self.admitted = true;
                self.since = at;
            }
            Step::Retried => self.retry(strategy, at),
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
            Step::SignalledIdle => {
                self.stage_status = self.stage_status.max(StageStatus::ShouldEnd);
                let idle = Idle { since: self.stage_begun(), told: true };
                self.rare.change(|rare| rare.idle = Some(idle));
                self.since = at;
            }
            Step::StageAgain => self.begin_again(at),
            Step::Reported { slot, status, digest, shows, .. } => {
                self.report(*slot, *status, *digest, *shows, strategy, at);
            }
            Step::StageBegan { slot } => {
                self.begin(*slot, StageStatus::InProgress, at);
            }
            Step::Counted { agents, recount } => {
                self.rare.change_manager(|manager| {
                    manager.reported = *agents;
                    manager.recounts = recount.unwrap_or(manager.recounts);
                });
            }
            Step::NextWave { wave } => self.go_on_in(*wave, strategy, at),
            Step::NextOffer { piece } => {
                self.piece = self.fitting(*piece, strategy).unwrap_or(*piece);
                self.fetched = false;
                self.rare.change(|rare| rare.idle = None);
                self.begin(self.piece.slot(), StageStatus::Pending, at);
            }
            Step::Lacks { functions } => {
                let before = self.piece;
                self.rare.change(|rare| rare.lacks = *functions);
                let fresh = Self { piece: Piece::FIRST, slot: Piece::FIRST.slot(), ..self.clone() };
                *self = fresh.lacking(*functions, strategy);
                // It may have been shown.
                if let (true, Piece::Stage(stage)) = (before != self.piece, before) {
                    self.rare.change(|rare| rare.passed = rare.passed.with(stage));
                }
            }
            Step::Ended { status, outcome } => {
                self.status = *status;
                self.outcome = Some(*outcome);
                self.since = at;
                if *status == ChildStatus::Done {
                    self.tainted = self.tainted.minus(self.rolled_out);
                }
            }
            Step::PolledWhileBusy => {
                if self.rare.undo.as_deref().is_some_and(Undo::is_in_hand) {
                    self.rare.change_undo(|undo| undo.polls = undo.polls.saturating_add(1));
                } else {
                    self.polls = self.polls.saturating_add(1);
                }
            }
            Step::ReplacedBy { successor, at_work } => {
                self.rare.change(|rare| {
                    rare.successor = Some(*successor);
                    rare.displaced = *at_work;
                });
            }
            Step::StandsInFor { predecessor, functions, wave } => {
                self.rare.change(|rare| rare.predecessor = Some(*predecessor));
                self.tainted = self.tainted.union(*functions);
                if self.outcome == Some(Outcome::Excluded(Exclusion::Successor)) {
                    self.wave = *wave;
                }
            }
            Step::Reinstated => self.reinstate(at),
            Step::UndoOffered { functions } => self.offer_undo(*functions, at),
            Step::UndoFetched => {
                self.rare.change_undo(|undo| {
                    undo.fetched = true;
                    undo.since = at;
                    undo.polls = 0;
                });
            }
            Step::UndoConfirmed { function } => self.confirm_undo(usize::from(*function), at),
            Step::UndoOverdue => self.rare.change_undo(|undo| undo.overdue = true),
            Step::UndoDropped => {
                self.rare.change_undo(|undo| undo.functions = FunctionSet::EMPTY);
                self.rare.change_manager(|manager| manager.reported.unconfirmed = 0);
                // What it was to take back for another is nothing of its own.
                let never_began = self.attempt <= 2 && !self.has_begun() && self.marks().is_empty();
                if self.rare.predecessor.is_some() && never_began {
                    self.tainted = FunctionSet::EMPTY;
                }
            }
            Step::Late { slot, shows, digest, .. } => {
                let function = slot.map_or(0, |slot| slot.function(strategy));
                let functions = match &self.rare.manager {
                    Some(_) => self.current_functions(strategy),
                    None => FunctionSet::of(function),
                };
                self.show(*shows, functions);
                let late = &mut self.heard_mut().late;
                if late.len() == MAX_LATE {
                    late.remove(0);
                }
                late.push(*digest);
            }
        }
    }

    /// Folds in a fact of the whole release.
    pub fn fold(&mut self, dated: &Dated, strategy: &Strategy, levels: &Levels) {
        match dated.fact {
            Fact::Resumed { level } => self.let_end(level, strategy, levels, dated.at),
            Fact::Opened { level } => {
                self.let_end(level, strategy, levels, dated.at);
                // Behind a barrier all set up anew: not all at once.
                self.admitted = false;
                let waits = matches!(self.status, ChildStatus::Todo | ChildStatus::Doing) && !self.fetched;
                if waits && levels.level_of(self) < level {
                    self.since = self.since.max(dated.at);
                }
            }
            Fact::StageEnded { stage } => {
                if self.is_in(usize::from(stage)) {
                    self.apply(&Step::Signalled, strategy, dated.at);
                }
            }
            Fact::StageSkipped { stage, then } => self.pass_over(stage, then, strategy, dated.at),
            Fact::UntestedRolledOut => self.roll_out_untested(dated.at),
            Fact::Aborted => self.abort(dated.at),
            Fact::Retried => {
                if self.is_retryable() {
                    self.retry(strategy, dated.at);
                }
            }
        }
        self.facts += 1;
    }

    /// Gives the signal it waits for, if no barrier from `level` on withholds it.
    fn let_end(&mut self, level: u8, strategy: &Strategy, levels: &Levels, at: ReleaseMs) {
        let waits = self.status == ChildStatus::Doing && self.stage_status == StageStatus::SuccessWaiting;
        if waits && levels.may_end(self.slot, level) {
            self.apply(&Step::Signalled, strategy, at);
        }
    }

    /// What it has not begun it never will; what it runs it may end.
    fn pass_over(&mut self, stage: u8, then: Piece, strategy: &Strategy, at: ReleaseMs) {
        let ends_on_signal = self.ends_on_signal(usize::from(stage), strategy);
        if !self.status.is_over() && !self.fetched && self.piece == Piece::Stage(stage) {
            self.rare.change(|rare| rare.passed = rare.passed.with(stage));
            self.apply(&Step::NextOffer { piece: then }, strategy, at);
        } else if ends_on_signal && self.is_in(usize::from(stage)) {
            self.apply(&Step::Signalled, strategy, at);
        }
    }

    /// Whether it runs this stage and has not been told to end it.
    pub fn is_in(&self, stage: usize) -> bool {
        let runs = matches!(self.stage_status, StageStatus::InProgress | StageStatus::SuccessWaiting);
        self.status == ChildStatus::Doing && self.slot.stage_index() == Some(stage) && runs
    }

    /// When the stage it is in began for the first time.
    pub fn stage_begun(&self) -> ReleaseMs {
        self.rare.idle.as_ref().map_or(self.stage_since, |idle| idle.since)
    }

    /// Whether it was left untested, and nothing else was offered to it.
    pub fn is_left_untested(&self) -> bool {
        let is_left = self.status.is_over() && self.outcome == Some(Outcome::Untested);
        is_left
            && self.rare.manager.is_none()
            && self.rare.successor.is_none()
            && self.may_run_new().is_empty()
    }

    /// The same stage, under the names of a new attempt.
    fn begin_again(&mut self, at: ReleaseMs) {
        let idle = Idle { since: self.stage_begun(), told: false };
        self.rare.change(|rare| rare.idle = Some(idle));
        self.try_anew(self.piece, at);
    }

    /// As a new attempt, which goes on where the one before was.
    fn try_anew(&mut self, piece: Piece, at: ReleaseMs) {
        self.attempt = self.attempt.saturating_add(1);
        self.named = self.attempt;
        self.piece = piece;
        self.fetched = false;
        self.polls = 0;
        self.begin(piece.slot(), StageStatus::Pending, at);
    }

    /// It stays untested, whatever becomes of this.
    fn roll_out_untested(&mut self, at: ReleaseMs) {
        if !self.is_left_untested() {
            return;
        }
        self.status = ChildStatus::Doing;
        self.rare.change(|rare| rare.idle = None);
        self.admitted = false;
        self.try_anew(Piece::Rollout(0), at);
    }

    fn reinstate(&mut self, at: ReleaseMs) {
        let was_at_work = self.rare.displaced;
        self.rare.change(|rare| {
            rare.successor = None;
            rare.displaced = false;
        });
        if was_at_work {
            self.status = ChildStatus::Doing;
            self.outcome = None;
            self.attempt = self.attempt.saturating_add(1);
            self.since = at;
            self.polls = 0;
        }
    }

    fn show(&mut self, shows: Shows, functions: FunctionSet) {
        match shows {
            Shows::Nothing => {}
            // What a manager takes back, it takes back of all waves.
            Shows::Base if self.rare.manager.is_some() => {
                self.tainted = self.tainted.minus(functions);
                self.rolled_out = self.rolled_out.minus(functions);
            }
            Shows::Base => self.tainted = self.tainted.minus(functions),
            Shows::New => self.rolled_out = self.rolled_out.union(functions),
        }
    }

    /// The next wave is a new attempt, which goes on with what the one before left.
    fn go_on_in(&mut self, wave: u32, strategy: &Strategy, at: ReleaseMs) {
        let (named, reported) = (self.named, self.rare.manager.as_deref().map(|manager| manager.reported));
        self.retry(strategy, at);
        self.wave = wave;
        self.tainted = self.tainted.minus(self.rolled_out);
        if let Some(reported) = reported {
            self.rare.change_manager(|manager| {
                (manager.continues, manager.reported) = (Some(named), reported);
            });
        }
    }

    fn fetch(&mut self, strategy: &Strategy, at: ReleaseMs) {
        self.status = ChildStatus::Doing;
        self.fetched = true;
        self.by_itself = false;
        self.polls = 0;
        self.tainted = self.tainted.union(self.current_functions(strategy));
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
        self.show(shows, self.current_functions(strategy));
        self.stage_status = status;
        self.since = at;
        self.polls = 0;
        let attempt = self.attempt;
        self.heard_mut().marks.push(Mark { attempt, slot, status, digest });
    }

    fn offer_undo(&mut self, functions: FunctionSet, at: ReleaseMs) {
        let before = self.rare.undo.as_deref();
        let number = before.as_ref().map_or(1, |undo| (undo.number + 1).min(MAX_UNDO));
        let (overdue, asked) = match before.filter(|undo| undo.is_pending()) {
            Some(undo) => (undo.overdue, undo.asked),
            None => (false, at),
        };
        let undo = Undo { number, functions, fetched: false, since: at, asked, polls: 0, overdue };
        self.rare.change(|rare| rare.undo = Some(Box::new(undo)));
    }

    fn confirm_undo(&mut self, function: usize, at: ReleaseMs) {
        self.tainted = self.tainted.without(function);
        self.rolled_out = self.rolled_out.without(function);
        if self.rare.undo.is_none() {
            return;
        }
        self.rare.change_undo(|undo| undo.confirm(function, at));
        if self.pending_undo().is_none()
            && self.status.is_over()
            && matches!(self.outcome, None | Some(Outcome::Succeeded | Outcome::Untested))
        {
            // What went wrong first is what a person wants to know, and a new attempt has no outcome yet.
            self.outcome = Some(Outcome::Undone);
        }
    }

    /// What an undo of `functions` has to take back, unless the child was offered that already or another has
    /// taken its place.
    pub fn missing_undo(&self, functions: FunctionSet) -> Option<FunctionSet> {
        let offered = self.pending_undo().map_or(FunctionSet::EMPTY, |undo| undo.functions);
        let all = offered.union(functions);
        (self.rare.successor.is_none() && all != offered).then_some(all)
    }

    fn abort(&mut self, at: ReleaseMs) {
        match self.status {
            ChildStatus::Todo => {
                self.status = ChildStatus::No;
                self.outcome = Some(Outcome::Excluded(Exclusion::NotReached));
            }
            ChildStatus::Doing => {
                self.status = ChildStatus::Failed;
                self.outcome = self.may_run_new().is_empty().then_some(Outcome::Undone);
            }
            ChildStatus::No | ChildStatus::Done | ChildStatus::Failed => {}
        }
        if let Some(functions) = self.missing_undo(self.may_run_new()) {
            self.offer_undo(functions, at);
        }
    }

    fn retry(&mut self, strategy: &Strategy, at: ReleaseMs) {
        let mut manager = self.rare.manager.clone();
        if let Some(manager) = &mut manager {
            let before = std::mem::take(&mut **manager);
            **manager = Manager::new(before.planned);
            if self.outcome == Some(Outcome::Succeeded) {
                // The others keep what they have: it goes on with the release that it led.
                (manager.reported, manager.continues) = (before.reported, Some(self.named));
                manager.retries = true;
            }
        }
        let fresh = Self::of_manager(manager, at).lacking(self.rare.lacks, strategy);
        let mut rare = fresh.rare.clone();
        rare.change(|rare| {
            rare.joined = self.rare.joined.map(|_| 0);
            rare.predecessor = self.rare.predecessor;
            rare.undo.clone_from(&self.rare.undo);
        });
        *self = Self {
            attempt: self.attempt + 1,
            named: self.attempt + 1,
            wave: self.wave,
            tainted: self.tainted,
            rolled_out: self.rolled_out,
            rare,
            facts: self.facts,
            heard: self.heard.take(),
            ..fresh
        };
    }
}

/// The piece that an offer hands to an agent; `None` for an undo and for what this strategy never hands out.
fn piece_of(name: OfferName, strategy: &Strategy) -> Option<Piece> {
    match name.kind {
        OfferKind::First => Some(Piece::FIRST),
        OfferKind::Stage(stage) if usize::from(stage) < strategy.stages.len() => Some(Piece::Stage(stage)),
        OfferKind::Rollout(function) if usize::from(function) < strategy.functions.len() => {
            Some(Piece::Rollout(function))
        }
        OfferKind::Stage(_) | OfferKind::Rollout(_) | OfferKind::Undo(_) => None,
    }
}

impl Piece {
    /// What every agent is offered first.
    pub const FIRST: Self = Self::Stage(0);

    /// Where it begins.
    pub const fn slot(self) -> Slot {
        match self {
            Self::Whole => Slot::stage(0),
            Self::Stage(stage) => Slot(stage),
            Self::Rollout(function) => Slot::rollout(function),
        }
    }
}
