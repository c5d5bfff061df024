//! What a step makes of one child's part. Whether it is right was decided before.

use super::{
    Assignment, FunctionSet, InPlace, Keeping, MAX_LATE, ManagementMode, ResultDigest, Shows, Step,
    StepIndex, Stepwise, Undo, Whole,
};
use crate::release::clock::ReleaseMs;
use crate::release::{
    assignment::{Idle, RareSteps},
    offer::Unit,
};
use language::Strategy;
use model::{ChildKey, ChildStatus, Exclusion, Outcome, StageStatus};

impl Assignment {
    /// Folds one step in.
    pub fn apply(&mut self, step: &Step, strategy: &Strategy, at: ReleaseMs) {
        match step {
            Step::Offered => self.since = at,
            Step::Admitted => self.admit(at),
            Step::Fetched => self.fetch(strategy, at),
            Step::Waiting { .. } => {
                self.raise_stage_status(StageStatus::SuccessWaiting, at);
                self.polls = 0;
            }
            Step::Kept { .. } => {
                self.raise_stage_status(StageStatus::SuccessWaiting, at);
                self.polls = 0;
                self.change_rare(|rare| rare.kept = Some(Keeping::Undecided));
            }
            Step::KeptBelow { number, .. } => {
                self.change_rare(|rare| rare.kept = Some(Keeping::Undecided));
                if let Some(whole) = self.whole_mut() {
                    whole.failures = *number;
                }
            }
            Step::Signalled => self.raise_stage_status(StageStatus::ShouldEnd, at),
            Step::SignalledIdle => {
                self.raise_stage_status(StageStatus::ShouldEnd, at);
                self.set_idle(Some(Idle { since: self.stage_begun(), told: true, rests_until: None }));
            }
            Step::StageAgain { rests_until } => self.begin_again(*rests_until, at),
            Step::Reported { slot, status, digest, shows, .. } => {
                self.show(*shows, self.current_functions(strategy));
                self.report(*slot, *status, *digest, at);
            }
            Step::StageBegan { slot } => {
                self.set_idle(None);
                self.change_rare(|rare| rare.kept = None);
                self.begin(*slot, StageStatus::InProgress, at);
            }
            Step::Counted { agents, recount } => {
                if let Some(whole) = self.whole_mut() {
                    whole.reported = *agents;
                    whole.recounts = recount.unwrap_or(whole.recounts);
                }
            }
            Step::NextWave { wave } => self.go_on_in(*wave, strategy, at),
            Step::NextOffer { piece } => self.go_on_with(*piece, strategy, at),
            Step::Ended { status, outcome } => self.end(*status, *outcome, at),
            Step::Lacks { functions, in_place } => self.lack(*functions, *in_place, strategy),
            Step::Retried => self.retry(strategy, at),
            Step::PolledWhileBusy => self.note_poll(),
            Step::ReplacedBy { successor, at_work } => self.change_rare(|rare| {
                rare.successor = Some(*successor);
                rare.displaced = *at_work;
            }),
            Step::StandsInFor { predecessor, functions, wave } => {
                self.stand_in_for(*predecessor, *functions, *wave);
            }
            Step::Reinstated => self.reinstate(at),
            Step::UndoOffered { functions } => self.offer_undo(*functions, at),
            Step::UndoFetched => self.fetch_undo(at),
            Step::UndoFailed { rests_until, why } => {
                self.change_undo(|undo| undo.fail(*rests_until, why.as_deref(), at));
            }
            Step::Rested => self.rest_no_longer(),
            Step::UndoConfirmed { function } => self.confirm_undo(usize::from(*function), at),
            Step::UndoOverdue => self.change_undo(|undo| undo.overdue = true),
            Step::UndoDropped => self.drop_undo(),
            Step::Replaced { function, is_base, .. } => self.replace(usize::from(*function), *is_base),
            Step::Restored { function, .. } => {
                self.rolled_out = self.rolled_out.union(FunctionSet::of(usize::from(*function)));
            }
            Step::Late { slot, shows, digest, .. } => {
                let functions = match &self.led {
                    ManagementMode::InPlace(_) | ManagementMode::Whole(_) => self.current_functions(strategy),
                    ManagementMode::Stepwise(_) => {
                        FunctionSet::of(slot.map_or(0, |slot| slot.function(strategy)))
                    }
                };
                self.show(*shows, functions);
                self.keep_late(*digest);
            }
        }
    }

    fn admit(&mut self, at: ReleaseMs) {
        self.set_admitted(true);
        self.since = at;
    }

    fn fetch(&mut self, strategy: &Strategy, at: ReleaseMs) {
        self.status = ChildStatus::Doing;
        self.fetched = true;
        self.polls = 0;
        self.tainted = self.tainted.union(self.current_functions(strategy));
        self.begin(self.slot, StageStatus::InProgress, at);
    }

    fn begin(&mut self, slot: StepIndex, status: StageStatus, at: ReleaseMs) {
        self.slot = slot;
        self.stage_status = status;
        self.since = at;
        self.stage_since = at;
    }

    fn raise_stage_status(&mut self, least: StageStatus, at: ReleaseMs) {
        self.stage_status = self.stage_status.max(least);
        self.since = at;
    }

    fn report(&mut self, slot: StepIndex, status: StageStatus, digest: u64, at: ReleaseMs) {
        self.stage_status = status;
        self.since = at;
        self.polls = 0;
        let attempt = self.attempt;
        self.heard_mut().marks.push(ResultDigest { attempt, slot, status, digest });
    }

    fn replace(&mut self, function: usize, is_base: bool) {
        self.rolled_out = self.rolled_out.without(function);
        if !is_base {
            return;
        }
        self.tainted = self.tainted.without(function);
        let had_it = matches!(self.outcome, Some(Outcome::Succeeded | Outcome::Untested));
        if had_it && self.may_run_new().is_empty() {
            self.outcome = Some(Outcome::Undone);
        }
    }

    fn keep_late(&mut self, digest: u64) {
        let late = &mut self.heard_mut().late;
        if late.len() == MAX_LATE {
            late.remove(0);
        }
        late.push(digest);
    }

    fn show(&mut self, shows: Shows, functions: FunctionSet) {
        match (shows, &self.led) {
            (Shows::Nothing, _) => {}
            // What a manager takes back, it takes back of all waves; and an agent all that it has of the strategy.
            (Shows::Base, ManagementMode::InPlace(_) | ManagementMode::Whole(_)) => {
                self.tainted = self.tainted.minus(functions);
                self.rolled_out = self.rolled_out.minus(functions);
            }
            (Shows::Base, ManagementMode::Stepwise(_)) => self.tainted = self.tainted.minus(functions),
            (Shows::New, _) => self.rolled_out = self.rolled_out.union(functions),
        }
    }

    fn end(&mut self, status: ChildStatus, outcome: Outcome, at: ReleaseMs) {
        self.status = status;
        self.outcome = Some(outcome);
        self.since = at;
        if status == ChildStatus::Done {
            self.tainted = self.tainted.minus(self.rolled_out);
        }
    }

    fn note_poll(&mut self) {
        if self.undo().is_some_and(Undo::is_in_hand) {
            self.change_undo(|undo| undo.polls = undo.polls.saturating_add(1));
        } else {
            self.polls = self.polls.saturating_add(1);
        }
    }

    /// The next offer waits.
    fn go_on_with(&mut self, piece: Unit, strategy: &Strategy, at: ReleaseMs) {
        let piece = self.fitting(piece, strategy).unwrap_or(piece);
        self.fetched = false;
        self.set_idle(None);
        self.turn_to(piece, at);
    }

    /// Puts another piece in the place of the present one. Who has the whole strategy in hand begins with that anew.
    fn turn_to(&mut self, piece: Unit, at: ReleaseMs) {
        if let Some(steps) = self.stepwise_mut() {
            steps.piece = piece;
        }
        self.begin(self.piece().slot(), StageStatus::Pending, at);
    }

    /// The same stage, under the names of a new attempt.
    fn begin_again(&mut self, rests_until: Option<u64>, at: ReleaseMs) {
        self.set_idle(Some(Idle { since: self.stage_begun(), told: false, rests_until }));
        self.try_anew(self.piece(), at);
    }

    fn rest_no_longer(&mut self) {
        self.change_undo(|undo| undo.rests_until = None);
        if let Some(idle) = self.idle() {
            self.set_idle(Some(Idle { rests_until: None, ..idle }));
        }
    }

    /// As a new attempt, which goes on where the one before was.
    fn try_anew(&mut self, piece: Unit, at: ReleaseMs) {
        self.attempt = self.attempt.saturating_add(1);
        self.named = self.attempt;
        self.fetched = false;
        self.polls = 0;
        self.turn_to(piece, at);
    }

    /// It stays untested, whatever becomes of this.
    pub(super) fn roll_out_untested(&mut self, at: ReleaseMs) {
        if !self.is_left_untested() {
            return;
        }
        self.status = ChildStatus::Doing;
        // The roll-out is an offer of its own.
        if let ManagementMode::InPlace(agent) = &mut self.led {
            let rare = RareSteps { rare: std::mem::take(&mut agent.rare), ..RareSteps::NOTHING };
            self.led = ManagementMode::Stepwise(Stepwise { rare: rare.into(), ..Stepwise::new() });
        }
        self.set_idle(None);
        self.set_admitted(false);
        self.try_anew(Unit::Rollout(0), at);
    }

    /// What it runs is known otherwise, and it has begun nothing.
    fn lack(&mut self, functions: FunctionSet, in_place: bool, strategy: &Strategy) {
        if !self.is_whole() && in_place != self.is_in_place() {
            let rare = self.rare().clone();
            let fresh = if in_place { Self::new_in_place(self.since) } else { Self::new(self.since) };
            (self.led, self.slot) = (fresh.led, fresh.slot);
            self.change_rare(|own| *own = rare);
        }
        *self = self.clone().beginning(functions, strategy);
        let Some(steps) = self.stepwise_mut() else { return };
        let before = steps.piece;
        steps.piece = Unit::FIRST;
        steps.rare.change(|rare| rare.lacks = functions);
        self.skip_what_it_lacks(strategy);
        // It may have been shown.
        if let (true, Unit::Stage(stage)) = (before != self.piece(), before) {
            self.note_passed(stage);
        }
    }

    pub(super) fn note_passed(&mut self, stage: u8) {
        if let Some(steps) = self.stepwise_mut() {
            steps.rare.change(|rare| rare.passed = rare.passed.with(stage));
        }
    }

    fn stand_in_for(&mut self, predecessor: ChildKey, functions: FunctionSet, wave: u32) {
        self.change_rare(|rare| rare.predecessor = Some(predecessor));
        self.tainted = self.tainted.union(functions);
        if self.outcome == Some(Outcome::Excluded(Exclusion::Successor)) {
            self.wave = wave;
        }
    }

    fn reinstate(&mut self, at: ReleaseMs) {
        let was_at_work = self.rare().displaced;
        self.change_rare(|rare| {
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

    /// The next wave is a new attempt, which goes on with what the one before left.
    fn go_on_in(&mut self, wave: u32, strategy: &Strategy, at: ReleaseMs) {
        let (named, told) = (self.named, self.whole().map(|whole| (whole.reported, whole.failures)));
        self.retry(strategy, at);
        self.wave = wave;
        self.tainted = self.tainted.minus(self.rolled_out);
        if let Some((whole, (reported, failures))) = self.whole_mut().zip(told) {
            (whole.continues, whole.reported, whole.failures) = (Some(named), reported, failures);
        }
    }

    pub(super) fn retry(&mut self, strategy: &Strategy, at: ReleaseMs) {
        let led = match &self.led {
            ManagementMode::Stepwise(steps) => {
                let rare = RareSteps { lacks: steps.rare.lacks, ..RareSteps::NOTHING };
                ManagementMode::Stepwise(Stepwise { rare: rare.into(), ..Stepwise::new() })
            }
            ManagementMode::InPlace(_) => ManagementMode::InPlace(Box::<InPlace>::default()),
            ManagementMode::Whole(before) => ManagementMode::Whole(Box::new(self.next_attempt_of(before))),
        };
        let mut fresh = Self { led, ..Self::new(at) };
        fresh.slot = self.slot;
        fresh.skip_what_it_lacks(strategy);
        let before = self.rare();
        fresh.change_rare(|rare| {
            rare.joined = before.joined.map(|_| 0);
            rare.predecessor = before.predecessor;
            rare.undo.clone_from(&before.undo);
        });
        *self = Self {
            attempt: self.attempt + 1,
            named: self.attempt + 1,
            wave: self.wave,
            tainted: self.tainted,
            rolled_out: self.rolled_out,
            facts: self.facts,
            heard: self.heard.take(),
            ..fresh
        };
    }

    /// Where some of those below ended badly and the others not, these keep what they have: it goes on with the release that
    /// it led.
    fn next_attempt_of(&self, before: &Whole) -> Whole {
        let fresh = Whole::new(before.planned.clone());
        if self.outcome == Some(Outcome::Succeeded) {
            let Whole { reported, failures, .. } = *before;
            Whole { reported, failures, continues: Some(self.named), retries: true, ..fresh }
        } else {
            fresh
        }
    }
}
