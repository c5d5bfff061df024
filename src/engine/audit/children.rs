//! What changes of children are called in the trail.

use super::event::Event;
use domain::children::Change;
use domain::release::state::State;

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(change: &'a Change, state: &'a State, child_id: &'a str) -> Option<Event<'a>> {
    Some(match change {
        Change::Arrived { arrival, .. } => Event::ChildArrived { child: child_id, how: *arrival },
        Change::Moved { .. } => Event::ChildMoved { child: child_id },
        Change::Replaced { by, .. } => {
            let by = state.children.get(*by).map_or("?", |child| child.id.as_str());
            Event::ChildReplaced { child: child_id, by }
        }
        Change::Back { .. } => Event::ChildBack { child: child_id },
        Change::Reported { agents, .. } => Event::ChildReported { child: child_id, agents: *agents },
        Change::SaysOtherwise { differs, .. } => Event::ChildIdShared { child: child_id, differs },
        Change::Labelled { key, value, .. } => {
            Event::ChildLabelled { child: child_id, key, value: value.as_deref() }
        }
        Change::Cordoned { cordon, .. } => Event::ChildCordoned { child: child_id, cordon: *cordon },
        Change::Forgotten { id, why, .. } => Event::ChildForgotten { child: id.as_str(), why: *why },
        Change::CalledAgain { .. }
        | Change::Seen { .. }
        | Change::Paced { .. }
        | Change::CalledFrom { .. }
        | Change::Proven { .. } => return None,
    })
}
