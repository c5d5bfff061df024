//! Workflows as the API shows them.

use crate::{scope::Scope, v1::time::rfc3339};
use domain::{
    release::state::Snapshot,
    workflows::{Instance, Part, PartKey, Phase, Workflow},
};
use model::tenant;
use protocol::api::{self, PlannedNode, WorkflowDetail, WorkflowFunction, WorkflowInstance};

/// Whether the caller sees it: a tenant its own.
pub(super) fn sees(scope: &Scope, workflow: &Workflow) -> bool {
    scope.sees_release(&workflow.id)
}

pub(super) fn workflow(state: &Snapshot, scope: &Scope, workflow: &Workflow) -> api::Workflow {
    let (mut running, mut waiting, mut failed) = (0, 0, 0);
    for (_, part) in functions(state, workflow) {
        match part.instance.as_ref().map(|instance| &instance.phase) {
            None => waiting += 1,
            Some(Phase::Running) => running += 1,
            Some(Phase::Failed(_)) => failed += 1,
            Some(Phase::Placed | Phase::Starting) => {}
        }
    }
    let functions = workflow.definition.functions.len() as u64;
    let word = match () {
        () if workflow.is_stopping => "stopping",
        () if failed > 0 => "failing",
        () if waiting > 0 => "waiting",
        () if running == functions => "running",
        () => "starting",
    };
    api::Workflow {
        name: named(scope, workflow).to_owned(),
        state: word.to_owned(),
        functions,
        running,
        waiting: if workflow.is_stopping { 0 } else { waiting },
        started: rfc3339(workflow.since.wall_ms),
        by: workflow.by.clone(),
    }
}

pub(super) fn detail(state: &Snapshot, scope: &Scope, of: &Workflow) -> WorkflowDetail {
    let function = |(key, part): (PartKey, &Part)| {
        let function = of.function(key)?;
        Some(WorkflowFunction {
            name: function.name.clone(),
            function: of.function_name(function),
            logical_id: part.logical.to_string(),
            instance: part.instance.as_ref().map(|one| instance(state, one)),
            ending: part.leaving.iter().map(|one| instance(state, one)).collect(),
        })
    };
    let functions = functions(state, of).filter_map(function).collect();
    WorkflowDetail { workflow: workflow(state, scope, of), functions }
}

fn named<'w>(scope: &Scope, workflow: &'w Workflow) -> &'w str {
    match scope.tenant() {
        Some(_) => tenant::split(&workflow.id).map_or(&*workflow.id, |(_, own)| own),
        None => &workflow.id,
    }
}

fn functions<'s>(state: &'s Snapshot, workflow: &'s Workflow) -> impl Iterator<Item = (PartKey, &'s Part)> {
    let keys = workflow.parts().map(|(key, ..)| key).skip(workflow.definition.resources.len());
    keys.filter_map(|key| Some((key, state.workflows.part(key)?.as_ref())))
}

fn instance(state: &Snapshot, instance: &Instance) -> WorkflowInstance {
    let (phase, why) = match &instance.phase {
        Phase::Placed => ("placed", None),
        Phase::Starting => ("starting", None),
        Phase::Running => ("running", None),
        Phase::Failed(why) => ("failed", Some(why.to_string())),
    };
    let child = state.children.get(instance.node);
    let node = PlannedNode {
        id: child.map(|child| child.id.to_string()).unwrap_or_default(),
        name: child.and_then(|child| child.profile.as_ref()?.name.clone()),
    };
    WorkflowInstance { id: instance.id.to_string(), node, phase: phase.to_owned(), why }
}
