//! Workflows as the API shows them.

use std::sync::Arc;

use axum::Json;

use crate::{Context, context::PATIENCE, problem::Problem, scope::Scope, v1::time::rfc3339};
use domain::{
    release::{
        command::{Command, LastSeen, Refusal},
        state::Snapshot,
    },
    workflows::{self, Instance, Part, PartKey, Phase, Workflow},
};
use engine::{By, EngineError};
use model::{Now, tenant};
use protocol::api::{
    self, PlannedNode, WorkflowDetail, WorkflowFunction, WorkflowInstance, WorkflowInstances,
    WorkflowResource,
};

/// Carries out what a caller asks of a workflow; `name`: as the caller calls it.
pub(super) async fn carry_out(
    ctx: &Context,
    by: By,
    name: &str,
    command: workflows::Command,
) -> Result<(), Problem> {
    let answer = ctx.engine.call(Command::Workflows(command), by, PATIENCE).await;
    answer.map(drop).map_err(|error| refusal(error, name))
}

/// Why something is refused, with the name by which the caller calls the workflow.
pub(super) fn refusal(error: EngineError, name: &str) -> Problem {
    let workflow = name.to_owned();
    match error {
        EngineError::Refused(Refusal::WorkflowTaken(_)) => Refusal::WorkflowTaken(workflow).into(),
        EngineError::Refused(Refusal::UnknownWorkflow(_)) => Refusal::UnknownWorkflow(workflow).into(),
        EngineError::Refused(Refusal::UnknownPart { part, .. }) => {
            Refusal::UnknownPart { workflow, part }.into()
        }
        error => error.into(),
    }
}

/// Shows a workflow to a caller who calls it by this name.
pub(super) async fn show(ctx: &Context, scope: Scope, name: String) -> Result<Json<WorkflowDetail>, Problem> {
    let id = scope.release(&name);
    let found = Shown::read(ctx, scope, move |shown| shown.detail(&id)).await?;
    found.map(Json).ok_or_else(|| Refusal::UnknownWorkflow(name).into())
}

/// What a caller is shown of workflows.
pub(super) struct Shown<'s> {
    pub state: &'s Snapshot,
    pub scope: &'s Scope,
    seen: &'s dyn LastSeen,
    now: Now,
}

impl Shown<'_> {
    /// Has something read on a thread apart.
    pub async fn read<T: Send + 'static>(
        ctx: &Context,
        scope: Scope,
        read: impl FnOnce(&Shown<'_>) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
        let read = move |state: &Snapshot| read(&Shown { state, scope: &scope, seen: &*seen, now });
        Ok(ctx.engine.read_apart(PATIENCE, read).await?)
    }

    /// Whether the caller sees it: a tenant its own.
    pub fn sees(&self, workflow: &Workflow) -> bool {
        self.scope.sees_release(&workflow.id)
    }

    pub fn workflow(&self, workflow: &Workflow) -> api::Workflow {
        let phase = |part: &Part| {
            let instance = part.instance.as_ref().or(part.next.as_ref());
            instance.map_or("waiting", |instance| self.phase(instance).0)
        };
        let all: Vec<&str> = self.parts(workflow).map(|(_, part)| phase(part)).collect();
        let count = |of: &[&str], phases: &[&str]| of.iter().filter(|one| phases.contains(one)).count();
        let word = match () {
            () if workflow.is_stopping => "stopping",
            () if count(&all, &["failed", "silent"]) > 0 => "failing",
            () if count(&all, &["waiting"]) > 0 => "waiting",
            () if count(&all, &["running"]) == all.len() => "running",
            () => "starting",
        };
        let functions = all.get(workflow.definition.resources.len()..).unwrap_or_default();
        let strategy = workflow.strategy.unwrap_or(self.state.settings.placement.strategy);
        api::Workflow {
            name: self.named(workflow).to_owned(),
            state: word.to_owned(),
            functions: functions.len() as u64,
            running: count(functions, &["running"]) as u64,
            waiting: if workflow.is_stopping { 0 } else { count(functions, &["waiting"]) as u64 },
            strategy: strategy.name().to_owned(),
            started: rfc3339(workflow.since.wall_ms),
            by: workflow.by.clone(),
        }
    }

    /// None: there is none of this id that the caller sees.
    pub fn detail(&self, id: &str) -> Option<WorkflowDetail> {
        let of = self.state.workflows.get(id).filter(|workflow| self.sees(workflow))?;
        let function = |(key, part): (PartKey, &Part)| {
            let name = of.function(key)?.name.clone();
            let function = of.name_at_nodes(&name);
            Some(WorkflowFunction { name, function, instances: self.instances(part) })
        };
        let resource = |(key, part): (PartKey, &Part)| {
            let resource = of.resource(key)?;
            let (name, class) = (resource.name.clone(), resource.class.clone());
            Some(WorkflowResource { name, class, instances: self.instances(part) })
        };
        let functions = self.parts(of).filter_map(function).collect();
        let resources = self.parts(of).filter_map(resource).collect();
        Some(WorkflowDetail { workflow: self.workflow(of), functions, resources })
    }

    fn instances(&self, part: &Part) -> WorkflowInstances {
        WorkflowInstances {
            logical_id: part.logical.to_string(),
            instance: part.instance.as_ref().map(|one| self.instance(one)),
            next: part.next.as_ref().map(|one| self.instance(one)),
            ending: part.leaving.iter().map(|one| self.instance(one)).collect(),
        }
    }

    fn named<'w>(&self, workflow: &'w Workflow) -> &'w str {
        match self.scope.tenant() {
            Some(_) => tenant::split(&workflow.id).map_or(&*workflow.id, |(_, own)| own),
            None => &workflow.id,
        }
    }

    /// Resources first, as they are numbered.
    fn parts<'w>(&'w self, workflow: &'w Workflow) -> impl Iterator<Item = (PartKey, &'w Part)> {
        let keys = workflow.parts().map(|(key, ..)| key);
        keys.filter_map(|key| Some((key, self.state.workflows.part(key)?.as_ref())))
    }

    /// How far an instance is, and why it failed.
    fn phase<'i>(&self, instance: &'i Instance) -> (&'static str, Option<&'i str>) {
        match &instance.phase {
            _ if workflows::is_out(self.state, self.seen, self.now, instance.node) => ("silent", None),
            Phase::Placed => ("placed", None),
            Phase::Starting => ("starting", None),
            Phase::Ready => ("ready", None),
            Phase::Running => ("running", None),
            Phase::Failed(why) => ("failed", Some(why)),
        }
    }

    fn instance(&self, instance: &Instance) -> WorkflowInstance {
        let (phase, why) = self.phase(instance);
        let child = self.state.children.get(instance.node);
        let node = PlannedNode {
            id: child.map(|child| child.id.to_string()).unwrap_or_default(),
            name: child.and_then(|child| child.profile.as_ref()?.name.clone()),
        };
        let (id, why) = (instance.id.to_string(), why.map(str::to_owned));
        WorkflowInstance { id, node, phase: phase.to_owned(), why }
    }
}
