//! What a report proves of the version that a child runs.

use crate::release::{
    assignment::{Assignment, Shows, StepIndex},
    offer::Unit,
};
use language::{Action, Strategy};
use model::StageStatus;

/// What a report proves of the version that the child runs now. See how agents behave in the text of
/// [`crate::release`]: an agent acts before it reports.
pub(super) fn shows(
    assignment: &Assignment,
    strategy: &Strategy,
    piece: Unit,
    slot: StepIndex,
    status: StageStatus,
) -> Shows {
    let success = match status {
        StageStatus::Completed => true,
        StageStatus::Failure => false,
        StageStatus::Pending
        | StageStatus::InProgress
        | StageStatus::SuccessWaiting
        | StageStatus::ShouldEnd
        | StageStatus::Error => return Shows::Nothing,
    };
    match piece {
        Unit::Rollout(_) if success => Shows::New,
        // Both ends of a stage are a roll-back.
        Unit::Rollout(_) | Unit::Stage(_) => Shows::Base,
        Unit::Whole => {
            // A manager reports a failure when everything is taken back, and walks on nowhere.
            if assignment.is_whole() && !success {
                return Shows::Base;
            }
            match slot.stage_index().map_or(Action::Rollback, |stage| strategy.next(stage, success)) {
                Action::Rollout => Shows::New,
                Action::Rollback => Shows::Base,
                Action::Stage(_) => Shows::Nothing,
            }
        }
    }
}
