//! What a fact of the whole release makes of one child's part.

use super::{Assignment, Dated, Keeping, ReleaseEvent, Step};
use crate::release::clock::ReleaseMs;
use crate::release::{gate::HybridLevels, offer::Unit};
use language::Strategy;
use model::{ChildStatus, Exclusion, Outcome, StageStatus};

impl Assignment {
    /// Folds in a fact of the whole release.
    pub fn fold(&mut self, dated: &Dated, strategy: &Strategy, levels: &HybridLevels) {
        match dated.fact {
            ReleaseEvent::Resumed { level } => {
                if !strategy.is_decided_above() {
                    self.accept_failure();
                }
                self.let_end(level, strategy, levels, dated.at);
            }
            ReleaseEvent::FailuresAccepted { level } => {
                self.accept_failure();
                self.let_end(level, strategy, levels, dated.at);
            }
            ReleaseEvent::Opened { level } => {
                self.let_end(level, strategy, levels, dated.at);
                // Behind a barrier all set up anew: not all at once. Who goes on in place sets nothing up, and needs no
                // place any more.
                self.set_admitted(false);
                let waits = matches!(self.status, ChildStatus::Todo | ChildStatus::Doing) && !self.fetched;
                if waits && levels.level_of(self) < level {
                    self.since = self.since.max(dated.at);
                }
            }
            ReleaseEvent::StageEnded { stage } => {
                if self.is_in(usize::from(stage)) {
                    self.apply(&Step::Signalled, strategy, dated.at);
                }
            }
            ReleaseEvent::StageSkipped { stage, then } => self.pass_over(stage, then, strategy, dated.at),
            // Who walks through the release hears it when it asks about a stage.
            ReleaseEvent::WinnerChosen { .. } | ReleaseEvent::SharesChosen { .. } => {}
            ReleaseEvent::UntestedRolledOut => self.roll_out_untested(dated.at),
            ReleaseEvent::Aborted => self.abort(dated.at),
            ReleaseEvent::RoutersBack => self.ask_anew(dated.at),
            ReleaseEvent::Retried => {
                if self.is_retryable() {
                    self.retry(strategy, dated.at);
                }
            }
        }
        self.facts += 1;
    }

    fn accept_failure(&mut self) {
        if self.is_undecided() {
            self.change_rare(|rare| rare.kept = Some(Keeping::Accepted));
        }
    }

    /// Gives the signal it waits for, if no barrier from `level` on withholds it.
    fn let_end(&mut self, level: u8, strategy: &Strategy, levels: &HybridLevels, at: ReleaseMs) {
        let waits = self.status == ChildStatus::Doing && self.stage_status == StageStatus::SuccessWaiting;
        if waits && !self.is_undecided() && levels.may_end(self.slot, level) {
            self.apply(&Step::Signalled, strategy, at);
        }
    }

    /// What it has not begun it never will; what it runs it may end.
    fn pass_over(&mut self, stage: u8, then: Unit, strategy: &Strategy, at: ReleaseMs) {
        // Who walks by itself hears which stages are skipped, and waits in this one for what the gates say.
        let ends_on_signal = !self.is_in_place() && self.ends_on_signal(usize::from(stage), strategy);
        if !self.status.is_over() && !self.fetched && self.piece() == Unit::Stage(stage) {
            self.note_passed(stage);
            self.apply(&Step::NextOffer { piece: then }, strategy, at);
        } else if ends_on_signal && self.is_in(usize::from(stage)) {
            self.apply(&Step::Signalled, strategy, at);
        }
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
}
