//! What changes of one child's part in a release touch: its row, its results, what it runs.

use super::Touched;
use crate::json_columns;
use domain::{
    children::Variant,
    release::{
        assignment::{ResultDigest, Step, StepIndex},
        members::Change,
        state::State,
        summary::StoredSummary,
    },
};
use model::{ChildKey, Now, ReleaseKey, StageStatus};
use store::rows::{DeploymentRow, StageResultRow};

/// What a child measured, and of which stage or roll-out.
struct ShownResult<'k> {
    slot: StepIndex,
    status: StageStatus,
    kept: &'k StoredSummary,
}

/// Of which stage or roll-out a step shows a result that is kept, and with which status.
const fn shown_by(step: &Step) -> Option<(StepIndex, StageStatus)> {
    match step {
        Step::Waiting { slot } | Step::Kept { slot } => Some((*slot, StageStatus::SuccessWaiting)),
        Step::Reported { slot, status, .. } => Some((*slot, *status)),
        Step::Offered
        | Step::Admitted
        | Step::Fetched
        | Step::KeptBelow { .. }
        | Step::Signalled
        | Step::SignalledIdle
        | Step::StageAgain { .. }
        | Step::StageBegan { .. }
        | Step::Counted { .. }
        | Step::NextWave { .. }
        | Step::NextOffer { .. }
        | Step::Ended { .. }
        | Step::Lacks { .. }
        | Step::Retried
        | Step::PolledWhileBusy
        | Step::ReplacedBy { .. }
        | Step::StandsInFor { .. }
        | Step::Reinstated
        | Step::UndoOffered { .. }
        | Step::UndoFetched
        | Step::UndoFailed { .. }
        | Step::Rested
        | Step::UndoConfirmed { .. }
        | Step::UndoOverdue
        | Step::UndoDropped
        | Step::Replaced { .. }
        | Step::Restored { .. }
        | Step::Late { .. } => None,
    }
}

impl Touched {
    pub(super) fn note_members(&mut self, state: &State, change: &Change, now: Now) {
        match change {
            Change::Joined { release, child, .. } => {
                self.releases.insert(*release);
                self.assignments.insert((*release, *child));
            }
            Change::Stepped { release, child, step, summary, .. } => {
                self.assignments.insert((*release, *child));
                if matches!(step, Step::Kept { .. } | Step::KeptBelow { .. }) {
                    self.releases.insert(*release);
                }
                self.note_summary(state, *release, *child, step, summary.as_deref(), now);
            }
            Change::Numbers { release, child, slot, status, summary } => {
                let result = ShownResult { slot: *slot, status: *status, kept: summary };
                self.keep_result(state, *release, *child, &result, now);
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
        summary: Option<&StoredSummary>,
        now: Now,
    ) {
        if let (Some(kept), Some((slot, status))) = (summary, shown_by(step)) {
            self.keep_result(state, release, child, &ShownResult { slot, status, kept }, now);
        }
    }

    fn keep_result(
        &mut self,
        state: &State,
        release: ReleaseKey,
        child: ChildKey,
        result: &ShownResult<'_>,
        now: Now,
    ) {
        let ShownResult { slot, status, kept } = *result;
        let Some(assignment) = state.find(release).and_then(|found| found.assignments.get(&child)) else {
            return;
        };
        let (summary, digest) = match json_columns::kept(kept, status) {
            Ok(written) => written,
            Err(error) => return self.unwritable = Some(error),
        };
        // What follows from a result may have begun the next attempt already.
        let is_of = |mark: &&ResultDigest| mark.slot == slot && mark.digest == digest;
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
        let Some(subject) = state.find(release).and_then(|r| r.strategy.subject(function)) else {
            return;
        };
        let (key, path) =
            (subject.key().to_owned(), subject.version_name(variant != Variant::Base).to_owned());
        let serves = state.children.get(child).and_then(|child| child.serves.as_ref()?.get(&key));
        let row = DeploymentRow {
            child_key: child.0,
            function: key.clone(),
            release_key: release.0,
            variant: variant.name().to_owned(),
            path,
            at_ms: now.wall_ms,
            content: serves.map(u64::cast_signed),
        };
        self.deployments.insert((child, key), row);
    }
}
