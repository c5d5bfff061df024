//! What changes of waves, levels and gates touch.

use super::Touched;
use domain::release::{rollout::Change, state::State};
use model::ChildKey;

impl Touched {
    pub(super) fn note_rollout(&mut self, state: &State, change: &Change) {
        match change {
            // Whoever waits in a stage is told at once.
            Change::LevelOpened { release, .. } | Change::SharesChosen { release, .. } => {
                self.touch_whole(*release);
            }
            Change::GateReached { release, .. }
            | Change::GateLeft { release }
            | Change::ApprovalAsked { release, .. }
            | Change::Approved { release, .. }
            | Change::WinnerChosen { release, .. } => {
                self.releases.insert(*release);
            }
            Change::WavesOpened { release, from, to, .. } => {
                self.releases.insert(*release);
                if let Some(found) = state.find(*release) {
                    self.children.extend(found.turns.between(*from, to + 1));
                }
            }
            Change::WavesPlanned { release, moved, managers, .. } => {
                self.releases.insert(*release);
                self.started.insert(*release);
                let managers = managers.iter().map(|(child, _)| (*release, *child));
                self.assignments.extend(managers);
                let acted = |child: &ChildKey| {
                    let release = state.find(*release)?;
                    let part = release.assignments.get(child)?;
                    let has_acted = part.rare().joined.is_some() || *part != release.untouched(part);
                    has_acted.then_some((release.key, *child))
                };
                self.assignments.extend(moved.iter().filter_map(|(child, _)| acted(child)));
            }
            Change::TurnoutAsked { .. } => {}
        }
    }
}
