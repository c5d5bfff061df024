//! What changes of analyses touch: their runs.

use super::Touched;
use domain::release::analysis::Change;

impl Touched {
    pub(super) fn note_analysis(&mut self, change: &Change) {
        let (release, block) = match change {
            Change::Began { release, block, .. }
            | Change::Extended { release, block, .. }
            | Change::VerdictGiven { release, block, .. } => (*release, *block),
            Change::Looked { release, run } => (*release, run.block),
        };
        self.releases.insert(release);
        self.runs.insert((release, block));
    }
}
