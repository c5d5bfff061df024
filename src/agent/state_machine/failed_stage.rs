//! A stage that has failed keeps its shares, where the offer wants that (`keeps_failed`, from `rollbackOnFailure: false`): what becomes of
//! them is for people to decide, and the manager says what they have decided.
//!
//! Rule: a stage that fails by itself, and whose failure would be taken back, goes on as it is. It is judged no more; health, counts and
//! what people here order go on. It is told once, as a stage that waits for the signal with the cause `kept`, and pauses the release. Then
//! the manager decides: the signal goes on with what follows its success, and its result says `Failure` with that cause; `then: rollback`
//! takes it back.
//!
//! Invariant: nothing goes on from a stage that has failed but by a signal that was given after the manager knew of the failure.
//! Counter-example: the manager gives the signal to a stage that waits; a limit is breached before the answer is here. Taken for the
//! decision, that answer would lead a version that fails to more calls, and nobody had heard of it. So an answer counts only where it was
//! asked for after what was told had been answered.
//!
//! What has no calls hasn't failed, and what never came into force, or doesn't answer when it is to take over, can't keep its shares.

use language::{Action, Stage};
use model::StageStatus;

use super::{
    Now, State, StateMachine, Testing,
    stages::{KEPT, Outcome, because_of, has_failed, why_failed, with_why, written},
};

impl StateMachine {
    /// Whether a stage that ends so keeps its shares instead.
    pub(super) fn is_to_keep(
        &self,
        stage: &Stage,
        testing: &Testing,
        is_skipped: bool,
        outcome: &Outcome,
    ) -> bool {
        let is_wanted = self.offer.as_ref().is_some_and(|offer| offer.keeps_failed);
        is_wanted
            && testing.kept.is_none()
            && stage.on_failure == Action::Rollback
            && has_failed(stage, testing, is_skipped, outcome)
    }

    /// The stage in hand has failed, and goes on as it is until the manager decides.
    pub(super) fn keep(&mut self, outcome: &Outcome) {
        let (Some(offer), Some(work), Some(testing)) = (&self.offer, &self.state.work, self.testing()) else {
            return;
        };
        let Some(stage) = offer.stages.get(testing.stage).map(|stage| &stage.stage) else { return };
        let why = why_failed(stage, testing, outcome);
        let summary = testing.counts.summary(stage, StageStatus::SuccessWaiting, self.reads);
        let summary = because_of(with_why(summary, Some(&why)), KEPT);
        let text = format!("stage {} of {} has failed and keeps its shares: {why}", stage.name, offer.id);
        let (id, next) = (work.offer.clone(), written(offer, stage.on_success));
        if let Some(testing) = self.testing_mut() {
            testing.kept = Some(why);
        }
        self.warn(text);
        // What was said before of its waiting says nothing any more.
        self.state.owed.retain(|owed| !(owed.waits && owed.offer == id));
        self.owe(id, summary, &next, true);
    }

    /// Whether the stage in hand has failed and keeps its shares.
    pub(super) fn is_kept(&self) -> bool {
        self.testing().is_some_and(|testing| testing.kept.is_some())
    }

    /// A result was answered: it may have told that the stage in hand has failed.
    pub(super) fn kept_told(&mut self, now: Now) {
        if self.is_kept() {
            self.world.kept_told_ms = now.ms;
        }
    }

    /// The manager says what becomes of a stage that has failed and keeps its shares.
    pub(super) fn decided_on_kept(&mut self, is_back: bool, took_ms: u64, now: Now) {
        let is_untold = self.state.owed.iter().any(|owed| owed.waits);
        let asked_ms = now.ms.saturating_sub(took_ms);
        if is_back {
            self.end_stage(Outcome::TakenBack(None), now);
        } else if !is_untold && asked_ms > self.world.kept_told_ms {
            self.end_stage(Outcome::Accepted, now);
        }
    }
}

impl State {
    /// Why the stage in hand has failed, if it has and keeps its shares.
    #[must_use]
    pub fn kept(&self) -> Option<&str> {
        self.work.as_ref()?.walk()?.testing.as_ref()?.kept.as_deref()
    }
}
