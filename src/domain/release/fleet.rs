//! The children of the state, as the planner sees them.

use super::state::Snapshot;
use crate::plan::{AreaIndex, Candidate, Fleet};
use model::{ChildKey, ChildStatus};

impl Fleet for Snapshot {
    fn areas(&self) -> &AreaIndex {
        self.children.areas()
    }

    fn candidate(&self, child: ChildKey) -> Option<Candidate<'_>> {
        let child = self.children.get(child)?;
        Some(Candidate {
            id: child.id.as_str(),
            cordon: child.cordon,
            capabilities: child.profile.as_deref().map(|profile| &profile.capabilities),
            labels: child.labels.as_deref(),
            area: child.area.as_deref(),
            is_busy: !child.open.is_empty(),
            is_manager: child.kind().is_manager(),
        })
    }

    /// Of a release that is over: later ones wait for those that are not.
    fn owes(&self, child: ChildKey, function: &str) -> bool {
        let open = self.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
        let over = open.iter().filter_map(|key| self.release(*key)).filter(|release| release.state.is_over());
        let owed = over.filter_map(|release| {
            let undo = release.assignments.get(&child)?.pending_undo().filter(|undo| undo.overdue)?;
            Some(undo.functions.iter().filter_map(|at| release.strategy.subject_key(at)))
        });
        owed.flatten().any(|owed| owed == function)
    }

    fn serves(&self, child: ChildKey, function: &str) -> Option<u64> {
        self.children.get(child)?.serves.as_ref()?.get(function)
    }

    fn is_changing(&self, child: ChildKey, function: &str) -> bool {
        let open = self.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
        let under_way =
            open.iter().filter_map(|key| self.release(*key)).filter(|release| !release.state.is_over());
        let mut naming =
            under_way.filter(|release| release.strategy.subject_keys().any(|key| key == function));
        naming.any(|release| {
            let part = release.assignments.get(&child);
            part.is_some_and(|part| matches!(part.status, ChildStatus::Todo | ChildStatus::Doing))
        })
    }
}
