//! What changes of children touch.

use super::Touched;
use domain::children::Change;

impl Touched {
    pub(super) fn note_children(&mut self, change: &Change) {
        match change {
            Change::Arrived { child, .. }
            | Change::CalledAgain { child }
            | Change::Moved { child, .. }
            | Change::CalledFrom { child, .. }
            | Change::Proven { child }
            | Change::Replaced { child, .. }
            | Change::Back { child }
            | Change::Reported { child, .. }
            | Change::Labelled { child, .. }
            | Change::Cordoned { child, .. } => {
                self.child_rows.insert(*child);
            }
            Change::Forgotten { child, .. } => {
                self.children_gone.insert(*child);
            }
            Change::Seen { .. } | Change::Paced { .. } | Change::SaysOtherwise { .. } => {}
        }
    }
}
