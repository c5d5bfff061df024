//! What changes of workflows are called in the trail.

use super::event::Event;
use domain::{
    release::state::State,
    workflows::{Change, PartKey, Phase},
};

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(change: &'a Change, state: &'a State) -> Option<Event<'a>> {
    Some(match change {
        Change::Started { workflow, .. } => Event::WorkflowStarted { workflow: &workflow.id },
        Change::Stopping { workflow } => {
            Event::WorkflowStopping { workflow: &state.workflows.by_key(*workflow)?.id }
        }
        Change::Placed { part, instance } => {
            let (workflow, part) = named(state, *part)?;
            let node = state.children.get(instance.node)?.id.as_str();
            Event::InstancePlaced { workflow, part, instance: &instance.id, node }
        }
        Change::Seen { part, phase: Phase::Failed(why) } => {
            let (workflow, part) = named(state, *part)?;
            Event::InstanceFailed { workflow, part, why }
        }
        // That nothing of it runs any more is told by its instances.
        Change::Left { .. } | Change::Seen { .. } | Change::Gone { .. } | Change::Removed { .. } => {
            return None;
        }
    })
}

/// The workflow of a part, and its name there.
fn named(state: &State, key: PartKey) -> Option<(&str, &str)> {
    let workflow = state.workflows.by_key(state.workflows.part(key)?.workflow)?;
    let (_, name, _) = workflow.parts().find(|(of, ..)| *of == key)?;
    Some((&workflow.id, name))
}
