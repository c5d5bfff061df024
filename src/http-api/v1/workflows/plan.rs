//! `POST /api/v1/workflows/plan`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context, context::PATIENCE, extract::Query, problem::Problem, scope::Scope, v1::releases::upload,
};
use domain::{
    release::{command::LastSeen, state::Snapshot},
    workflows::{NodeAreas, Nodes},
};
use model::Now;
use placement::{Placed, Placer, Requirements, Strategy, Workflow, WorkflowFault, place_all};
use protocol::{
    api::{self, PlannedNode, PlannedPart, RefusedNodes, WorkflowPlan},
    placements::{self, RESOURCES},
};

/// Nodes that are named for one reason.
const MAX_NAMED: usize = 10;

/// Parts that can't run of which it is told why.
const MAX_EXPLAINED: usize = 100;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// `random`, `round_robin`, `spread`, `nearest`; what the manager is set to if not given.
    strategy: Option<String>,
    /// Where chance begins; the same again gives the same plan on the same nodes. Any if not given.
    seed: Option<u32>,
    /// The tenant whose workflow it would be, if it is asked with a token that is bound to none.
    tenant: Option<String>,
}

/// Plans a workflow: on which node each of its parts would run, and why not on the others. Changes nothing.
#[utoipa::path(post, path = "/api/v1/workflows/plan", operation_id = "plan_workflow", tag = "workflows",
    params(Parameters),
    request_body(content = serde_json::Value, content_type = "application/json",
        description = "The workflow, in the form of a `workflow.json` of EDGELESS."),
    responses(
        (status = 200, body = WorkflowPlan),
        (status = 413, body = api::Problem, content_type = "application/problem+json", description = "Too large."),
        (status = 422, body = api::Problem, content_type = "application/problem+json",
            description = "The workflow has faults; they are in the detail."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    caller: Scope,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Result<Json<WorkflowPlan>, Problem> {
    let scope = caller.acting_for(&ctx.view().tenants, parameters.tenant.as_deref())?;
    let settings = Arc::clone(&ctx.settings);
    let strategy = parameters.strategy.as_deref().map(named_strategy).transpose()?;
    // Memory for what is read is what uploads have.
    let body = upload::read_workflow(&ctx, request).await?;
    let read = ctx.in_turn(move || Workflow::read(&body.strategy, &settings.function_types)).await?;
    let (workflow, odd) = read.map_err(|faults| invalid(&faults))?;
    let asked = Asked { workflow, strategy, seed: parameters.seed.unwrap_or_else(rand::random), scope };
    let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
    let mut plan =
        ctx.engine.read_apart(PATIENCE, move |state| asked.plan(state, seen.as_ref(), now)).await?;
    plan.warnings = odd.iter().map(ToString::to_string).collect();
    Ok(Json(plan))
}

/// A strategy by its name.
pub(super) fn named_strategy(name: &str) -> Result<Strategy, Problem> {
    let unknown = || Problem::bad_request(format!("`strategy` is one of {}", Strategy::NAMES.join(", ")));
    Strategy::named(name).ok_or_else(unknown)
}

/// What of a workflow can be planned, and not be started.
pub(super) fn unstartable(workflow: &Workflow) -> Vec<WorkflowFault> {
    let fault = |at: String, what: &str| WorkflowFault { at, what: what.to_owned() };
    let mut faults = Vec::new();
    for (at, function) in workflow.functions.iter().enumerate() {
        if let Err(why) = function.folder() {
            faults.push(fault(format!("functions[{at}].class_specification.code"), &why));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !function.name.chars().all(is_name) {
            let what = "callers call it so: it has letters, digits, ., _ and -";
            faults.push(fault(format!("functions[{at}].name"), what));
        }
        let is_output = |name: &&String| !name.chars().all(is_name);
        if let Some(output) = function.outputs.keys().find(is_output) {
            let what = "it is a part of an address: it has letters, digits, ., _ and -";
            faults.push(fault(format!("functions[{at}].output_mapping.{output}"), what));
        }
    }
    for (at, resource) in workflow.resources.iter().enumerate() {
        let class = &resource.class;
        if !RESOURCES.contains(&class.as_str()) {
            let what = format!("no node runs {class}; there are {}", RESOURCES.join(", "));
            faults.push(fault(format!("resources[{at}].class_type"), &what));
        } else if let Err((key, why)) = placements::check_resource(class, &resource.configuration) {
            faults.push(fault(format!("resources[{at}].configurations.{key}"), &why));
        }
        if !resource.outputs.is_empty() {
            faults.push(fault(format!("resources[{at}].output_mapping"), "it puts nothing out"));
        }
    }
    faults
}

pub(super) fn invalid(faults: &[WorkflowFault]) -> Problem {
    let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-workflow", all.join("\n"))
}

struct Asked {
    workflow: Workflow,
    /// None: as the manager is set.
    strategy: Option<Strategy>,
    seed: u32,
    scope: Scope,
}

impl Asked {
    fn plan(&self, state: &Snapshot, seen: &dyn LastSeen, now: Now) -> WorkflowPlan {
        let nodes = Nodes::of(state, seen, now, |child| self.scope.sees_child(child));
        let areas = NodeAreas { state, keys: &nodes.keys };
        let strategy = self.strategy.unwrap_or(state.settings.placement.strategy);
        let mut placer = Placer::new(&nodes.all, &areas, strategy, None);
        let mut chance = StdRng::seed_from_u64(self.seed.into());
        let (resources, functions) = place_all(&self.workflow, &mut placer, || chance.random());
        let mut shown = Shown { state, nodes: &nodes, placer, explained: 0 };
        let Workflow { functions: all, resources: all_resources, .. } = &self.workflow;
        WorkflowPlan {
            strategy: strategy.name().to_owned(),
            seed: self.seed,
            nodes: nodes.all.len() as u64,
            resources: all_resources
                .iter()
                .zip(resources)
                .map(|(part, placed)| shown.part(&part.name, &part.class, &part.requirements, placed))
                .collect(),
            functions: all
                .iter()
                .zip(functions)
                .map(|(part, placed)| shown.part(&part.name, &part.class, &part.requirements, placed))
                .collect(),
            warnings: Vec::new(),
        }
    }
}

/// Parts as they are shown.
struct Shown<'n> {
    state: &'n Snapshot,
    nodes: &'n Nodes,
    placer: Placer<'n>,
    /// Parts of which it was told why they can't run.
    explained: usize,
}

impl Shown<'_> {
    fn part(&mut self, name: &str, class: &str, requirements: &Requirements, placed: Placed) -> PlannedPart {
        let refused = if placed == Placed::Nowhere { self.why_not(requirements) } else { Vec::new() };
        PlannedPart {
            name: name.to_owned(),
            class: class.to_owned(),
            runtime: requirements.runtime.clone(),
            node: placed.node().and_then(|at| self.node(at)),
            refused,
        }
    }

    fn why_not(&mut self, requirements: &Requirements) -> Vec<RefusedNodes> {
        if self.explained >= MAX_EXPLAINED {
            return Vec::new();
        }
        self.explained += 1;
        let mut by_reason: BTreeMap<String, RefusedNodes> = BTreeMap::new();
        for (at, why) in self.placer.why_not(requirements) {
            let reason = why.to_string();
            let empty = RefusedNodes { reason: reason.clone(), count: 0, nodes: Vec::new() };
            let of = by_reason.entry(reason).or_insert(empty);
            of.count += 1;
            if of.nodes.len() < MAX_NAMED {
                of.nodes.extend(self.node(at));
            }
        }
        let mut all: Vec<RefusedNodes> = by_reason.into_values().collect();
        all.sort_by_key(|of| std::cmp::Reverse(of.count));
        all
    }

    fn node(&self, at: usize) -> Option<PlannedNode> {
        let child = self.state.children.get(*self.nodes.keys.get(at)?)?;
        let name = child.profile.as_ref().and_then(|profile| profile.name.clone());
        Some(PlannedNode { id: child.id.to_string(), name })
    }
}
