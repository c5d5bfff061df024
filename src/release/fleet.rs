//! The children of the state, as the planner sees them.

use super::state::State;
use crate::{
    model::{ChildKey, ChildKind},
    plan::{AreaIndex, Candidate, Fleet},
};

impl Fleet for State {
    fn areas(&self) -> &AreaIndex {
        &self.areas
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
            is_manager: child.kind() == ChildKind::Rm,
        })
    }
}
