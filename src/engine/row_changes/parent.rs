//! What changes between this manager and the one above touch, and what is owed to it.

use super::Touched;
use crate::{
    effect::ParentStageResult,
    forwarded_releases::Pointer,
    json_columns::PointerForm,
    rows::{owed, recount},
};
use domain::release::{parent::Change, state::State};

impl Touched {
    pub(super) fn note_parent(&mut self, change: &Change) {
        match change {
            Change::StageReported { release, .. }
            | Change::Recounted { release }
            | Change::Failed { release, .. }
            | Change::FailuresAccepted { release, .. }
            | Change::Held { release, .. }
            | Change::Continued { release, .. }
            | Change::UndoAwaited { release, .. }
            | Change::UndoReported { release, .. } => {
                self.releases.insert(*release);
            }
            Change::Forwarded { .. } => {}
        }
    }

    pub(super) fn parent_effects(&mut self, state: &State, change: &Change) {
        match change {
            Change::StageReported { release, stage, status, .. } => {
                let release = state.find(*release);
                self.owe(release.and_then(|release| owed(release, *stage, *status)));
            }
            Change::Recounted { release } => self.owe(state.find(*release).and_then(recount)),
            Change::UndoReported { offer, unconfirmed, .. } => {
                self.owe(Some(ParentStageResult::undone(offer.clone(), *unconfirmed)));
            }
            Change::Forwarded { id, to } => {
                let pointer = Pointer { release: id.clone(), to: to.clone() };
                let detail = self.json(&PointerForm::from(&pointer));
                self.pointers.extend(detail);
            }
            Change::Held { .. }
            | Change::Failed { .. }
            | Change::FailuresAccepted { .. }
            | Change::Continued { .. }
            | Change::UndoAwaited { .. } => {}
        }
    }

    /// Owes the parent a result.
    fn owe(&mut self, owed: Option<ParentStageResult>) {
        if let Some(owed) = owed {
            self.effect(&owed.into());
        }
    }
}
