//! What changes of workflows are called in the trail.

use super::event::Event;
use domain::{
    release::state::State,
    workflows::{Change, Instance, LeftWhy, PartKey, Phase},
};

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(change: &'a Change, state: &'a State) -> Option<Event<'a>> {
    Some(match change {
        Change::Started { workflow, .. } => Event::WorkflowStarted { workflow: &workflow.id },
        Change::Stopping { workflow } => {
            Event::WorkflowStopping { workflow: &state.workflows.by_key(*workflow)?.id }
        }
        Change::StrategySet { workflow, strategy } => {
            let workflow = &state.workflows.by_key(*workflow)?.id;
            Event::WorkflowStrategySet { workflow, strategy: strategy.map(placement::Strategy::name) }
        }
        Change::Placed { part, instance, .. } | Change::Moving { part, instance, .. } => {
            let (workflow, part) = named(state, *part)?;
            let node = node(state, instance);
            Event::InstancePlaced { workflow, part, instance: &instance.id, node }
        }
        // Those of a workflow that stops are told by that.
        Change::Left { why: LeftWhy::Stopped, .. } | Change::Dropped { why: LeftWhy::Stopped, .. } => {
            return None;
        }
        Change::Left { part, instance, why } | Change::Dropped { part, instance, why } => {
            let (workflow, part) = named(state, *part)?;
            let node = node(state, instance);
            Event::InstanceLeft { workflow, part, instance: &instance.id, node, why: why.name() }
        }
        Change::TookOver { part: key } => {
            let (workflow, part) = named(state, *key)?;
            let instance = state.workflows.part(*key)?.instance.as_ref()?;
            let node = node(state, instance);
            Event::InstanceMoved { workflow, part, instance: &instance.id, node }
        }
        Change::Seen { part, instance, phase: Phase::Failed(why), .. } => {
            let (workflow, part) = named(state, *part)?;
            Event::InstanceFailed { workflow, part, instance, why }
        }
        // That nothing of it runs any more is told by its instances.
        Change::Seen { .. }
        | Change::Reached { .. }
        | Change::Gone { .. }
        | Change::AboveSet { .. }
        | Change::Removed { .. } => return None,
    })
}

/// The child on whose machine an instance is; empty: nobody knows it any more.
fn node<'s>(state: &'s State, instance: &Instance) -> &'s str {
    state.children.get(instance.node).map_or("", |child| child.id.as_str())
}

/// The workflow of a part, and its name there.
fn named(state: &State, key: PartKey) -> Option<(&str, &str)> {
    let workflow = state.workflows.by_key(state.workflows.part(key)?.workflow)?;
    let (_, name, _) = workflow.parts().find(|(of, ..)| *of == key)?;
    Some((&workflow.id, name))
}
