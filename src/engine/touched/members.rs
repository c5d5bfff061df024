//! What changes of one child's part in a release touch: its row, its results, what it runs.

use super::Touched;
use crate::stored;
use heart::{
    children::Variant,
    release::{
        assignment::{Mark, Slot, Step},
        members::Change,
        state::State,
        summary::Kept,
    },
};
use model::{ChildKey, Now, ReleaseKey, StageStatus};
use store::rows::{DeploymentRow, StageResultRow};

impl Touched {
    pub(super) fn note_members(&mut self, state: &State, change: &Change, now: Now) {
        match change {
            Change::Joined { release, child, .. } => {
                self.releases.insert(*release);
                self.assignments.insert((*release, *child));
            }
            Change::Stepped { release, child, step, summary, .. } => {
                self.assignments.insert((*release, *child));
                self.note_summary(state, *release, *child, step, summary.as_deref(), now);
            }
            Change::Numbers { release, child, slot, status, summary } => {
                self.keep_result(state, *release, *child, *slot, *status, summary, now);
            }
            Change::Deployed { child, release, function, variant } => {
                self.deploy(state, *child, *release, *function, *variant, now);
            }
            Change::DeadlinesSeen { .. } | Change::LateKept { .. } => {}
        }
    }

    fn note_summary(
        &mut self,
        state: &State,
        release: ReleaseKey,
        child: ChildKey,
        step: &Step,
        summary: Option<&Kept>,
        now: Now,
    ) {
        let Some(summary) = summary else { return };
        match step {
            Step::Waiting { slot } => {
                self.keep_result(state, release, child, *slot, StageStatus::SuccessWaiting, summary, now);
            }
            Step::Reported { slot, status, .. } => {
                self.keep_result(state, release, child, *slot, *status, summary, now);
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are the columns")]
    fn keep_result(
        &mut self,
        state: &State,
        release: ReleaseKey,
        child: ChildKey,
        slot: Slot,
        status: StageStatus,
        kept: &Kept,
        now: Now,
    ) {
        let Some(assignment) = state.find(release).and_then(|found| found.assignments.get(&child)) else {
            return;
        };
        let (summary, digest) = match stored::kept(kept, status) {
            Ok(written) => written,
            Err(error) => return self.unwritable = Some(error),
        };
        // What follows from a result may have begun the next attempt already.
        let is_of = |mark: &&Mark| mark.slot == slot && mark.digest == digest;
        let mark = assignment.marks().iter().rev().find(is_of);
        let attempt = mark.map_or(assignment.attempt, |mark| mark.attempt);
        let row = StageResultRow {
            release_key: release.0,
            child_key: child.0,
            attempt: attempt as i16,
            stage: i16::from(slot.0),
            status: i16::from(status.wire()),
            at_ms: now.wall_ms,
            digest: digest.cast_signed(),
            summary,
        };
        self.results.insert((release, child, attempt, slot), row);
    }

    fn deploy(
        &mut self,
        state: &State,
        child: ChildKey,
        release: ReleaseKey,
        function: usize,
        variant: Variant,
        now: Now,
    ) {
        let Some(function) = state.find(release).and_then(|r| r.strategy.functions.get(function)) else {
            return;
        };
        let path = if variant == Variant::Base { &function.base.path } else { &function.new.path };
        let row = DeploymentRow {
            child_key: child.0,
            function: function.name.clone(),
            release_key: release.0,
            variant: variant.name().to_owned(),
            path: path.clone(),
            at_ms: now.wall_ms,
        };
        self.deployments.insert((child, function.name.clone()), row);
    }
}
