//! What changes of children touch.

use super::Touched;
use domain::{children::Change, release::state::State};

impl Touched {
    pub(super) fn note_children(&mut self, state: &State, change: &Change) {
        if let Change::Reported { child, .. } = change {
            // Where its node takes events may be elsewhere now.
            for (key, part) in state.workflows.on_node(*child) {
                self.note_senders(state, key, part);
            }
        }
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
