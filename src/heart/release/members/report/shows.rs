//! What a report proves of the version that a child runs.

use crate::release::{
    assignment::{Assignment, Shows, Slot},
    offer::Piece,
};
use language::{Action, Strategy};
use model::StageStatus;

/// What a report proves of the version that the child runs now. See how agents behave in the text of
/// [`crate::release`]: an agent acts before it reports, and after a failure it may walk on to the next stage.
pub(super) fn shows(
    assignment: &Assignment,
    strategy: &Strategy,
    piece: Piece,
    slot: Slot,
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
    if assignment.is_in_place() {
        let next = slot.stage_index().map_or(Action::Rollback, |stage| strategy.next(stage, success));
        return match next {
            Action::Rollout => Shows::New,
            Action::Rollback => Shows::Base,
            Action::Stage(_) => Shows::Nothing,
        };
    }
    if assignment.is_whole() {
        // It reports a failure when everything is taken back, and walks on nowhere.
        let next = slot.stage_index().map_or(Action::Rollback, |stage| strategy.next(stage, true));
        return match next {
            _ if !success => Shows::Base,
            Action::Rollout => Shows::New,
            Action::Rollback => Shows::Base,
            Action::Stage(_) => Shows::Nothing,
        };
    }
    match piece {
        Piece::Rollout(_) => {
            if success {
                Shows::New
            } else {
                Shows::Base
            }
        }
        // Both ends of a stage are a roll-back.
        Piece::Stage(_) => {
            let rolls_out = |stage| assignment.rolls_out_itself(stage, strategy);
            if success && slot.stage_index().is_some_and(rolls_out) { Shows::New } else { Shows::Base }
        }
        Piece::Whole => {
            let Some(stage) = slot.stage_index() else { return Shows::Nothing };
            match strategy.next(stage, success) {
                Action::Rollout if success => Shows::New,
                // Only after the last stage of the file is there nothing to walk on to.
                Action::Rollout | Action::Rollback if strategy.success_path().last() == Some(&stage) => {
                    Shows::Base
                }
                Action::Stage(_) | Action::Rollout | Action::Rollback => Shows::Nothing,
            }
        }
    }
}

/// What a report shows about an offer of an earlier attempt, which an earlier build may have handed out: its last stage may
/// have rolled out.
pub(super) fn earlier_shows(
    assignment: &Assignment,
    strategy: &Strategy,
    piece: Piece,
    slot: Slot,
    status: StageStatus,
) -> Shows {
    let Some(stage) = slot.stage_index().filter(|_| assignment.stepwise().is_some()) else {
        return shows(assignment, strategy, piece, slot, status);
    };
    if strategy.rollout.is_some() {
        return shows(assignment, strategy, piece, slot, status);
    }
    match strategy.next(stage, true) {
        Action::Rollout if status == StageStatus::Completed => Shows::New,
        Action::Rollout | Action::Rollback | Action::Stage(_) => Shows::Nothing,
    }
}
