//! What a child's part in a release is shown as on a map.

use super::Assignment;
use model::{ChildStatus, MapState, Outcome, StageStatus};

impl Assignment {
    /// Follows from this part alone, so that whoever folds its steps again comes to the same.
    pub fn map_state(&self) -> MapState {
        if let Some(undo) = self.pending_undo() {
            return if undo.overdue { MapState::Unconfirmed } else { MapState::TakingBack };
        }
        match (self.status, self.outcome) {
            (ChildStatus::Todo, _) => MapState::Waiting,
            (ChildStatus::Doing, _) if self.stage_status == StageStatus::SuccessWaiting => MapState::Held,
            (ChildStatus::Doing, _) => MapState::Doing,
            (_, Some(Outcome::Succeeded)) | (ChildStatus::Done, None) => MapState::Done,
            (_, Some(Outcome::Failed)) | (ChildStatus::Failed, None) => MapState::Failed,
            (_, Some(Outcome::TimedOut)) => MapState::TimedOut,
            (_, Some(Outcome::Unreachable)) => MapState::Unreachable,
            (_, Some(Outcome::Lost)) => MapState::Lost,
            (_, Some(Outcome::Undone)) => MapState::TakenBack,
            (_, Some(Outcome::Untested)) => MapState::Untested,
            (_, Some(Outcome::Excluded(_))) | (ChildStatus::No, None) => MapState::Excluded,
        }
    }
}
