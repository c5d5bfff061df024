//! What changes of whole stages touch.

use super::Touched;
use domain::release::stages::Change;

impl Touched {
    pub(super) fn note_stages(&mut self, change: &Change) {
        match change {
            Change::Ended { release, .. }
            | Change::Skipped { release, .. }
            | Change::UntestedRolledOut { release, .. } => self.touch_whole(*release),
            Change::Timed { release, .. } => {
                self.releases.insert(*release);
            }
        }
    }
}
