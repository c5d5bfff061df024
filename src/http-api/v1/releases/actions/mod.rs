//! `GET /api/v1/releases/{id}/actions`: what can be done to a release, by whom, and what it would do.

mod affected_agents;
mod words;

use std::sync::Arc;

use axum::{Extension, Json, extract::State, http::Method};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{Path, Query},
    problem::Problem,
    rights,
};
use affected_agents::Reach;
use domain::release::{
    command::Refusal,
    operation::{Effect, Operation},
    state::{Release, Snapshot},
};
use engine::{blocking::giving_way, view::Children};
use model::{ChildKey, Now};
use protocol::api::{ReleaseAction, ReleaseActions};

/// Children of a release that has left memory, looked at together.
const PAST_PAGE: u32 = 1_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// The action of this name alone, in all its ways; without it all of them.
    action: Option<String>,
}

/// What can be done to a release now, and if not, why not; what it would do, and to how many agents where.
#[utoipa::path(get, path = "/api/v1/releases/{id}/actions", operation_id = "list_release_actions", tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy."), Parameters),
    responses((status = 200, body = ReleaseActions)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    caller: Option<Extension<CallingOperator>>,
    Path(id): Path<String>,
    Query(Parameters { action }): Query<Parameters>,
) -> Result<Json<ReleaseActions>, Problem> {
    if let Some(unknown) = action.as_ref().filter(|action| !NAMES.contains(&action.as_str())) {
        let detail = format!("`action` is {unknown}, and there are {}", NAMES.join(", "));
        return Err(Problem::bad_request(detail));
    }
    let caller = caller.map(|Extension(caller)| caller).unwrap_or_default();
    let seen = Arc::clone(&ctx.view().children);
    let look = Look { seen, now: ctx.engine.clock().now(), caller, action };
    let wanted = id.clone();
    let in_memory = look.clone();
    let look_up = move |state: &Snapshot| {
        let release = state.release_by_id(&wanted)?;
        let mut looked = in_memory.operations(release);
        in_memory.take(state, release, &mut looked);
        Some(all_told(release, looked))
    };
    if let Some(found) = ctx.engine.read_apart(PATIENCE, look_up).await? {
        return Ok(Json(found));
    }
    // As showing it does, this says where it went if it went up.
    super::show::detail(&ctx, &id).await?;
    past(&ctx, &id, look).await.map(Json)
}

/// Of one that has left memory: a bounded number of children at a time.
async fn past(ctx: &Context, id: &str, look: Look) -> Result<ReleaseActions, Problem> {
    let past = ctx.engine.past(id).await?.ok_or_else(|| Problem::unknown_release(id))?;
    let (mut looked, mut after) = (None, None);
    loop {
        let page = past.page(after, PAST_PAGE).await?;
        let look_here = look.clone();
        let take = move |state: &Snapshot| {
            let mut looked = looked.unwrap_or_else(|| look_here.operations(&page.release));
            look_here.take(state, &page.release, &mut looked);
            (page.release, looked)
        };
        let (release, so_far) = ctx.engine.read_apart(PATIENCE, take).await?;
        after = page.next;
        if after.is_none() {
            return Ok(all_told(&release, so_far));
        }
        looked = Some(so_far);
    }
}

/// Who looks, and when.
#[derive(Clone)]
struct Look {
    seen: Arc<Children>,
    now: Now,
    caller: CallingOperator,
    /// The only one that is wanted.
    action: Option<String>,
}

impl Look {
    /// Everything that is done to a release as a whole, and of it what the caller may do.
    fn operations(&self, release: &Release) -> Vec<Looked> {
        let stages = (0..release.strategy.stages.len()).map(Operation::SkipStage);
        let before = [Operation::Approve, Operation::Pause, Operation::Resume];
        let onwards = [Operation::PromoteToGate, Operation::Promote];
        let after = [Operation::Retry, Operation::Extend, Operation::Abort];
        let all = before.into_iter().chain(onwards).chain(stages).chain(after);
        let allowed =
            |operation: &Operation| rights::check(&self.caller, &Method::POST, Some(&path(*operation)));
        let looked = |operation: Operation| {
            let allowed = allowed(&operation);
            let reach = if allowed.is_ok() { Reach::default() } else { Reach::unknown() };
            Looked { operation, refused: allowed.err(), can: None, reach }
        };
        let is_wanted =
            |operation: &Operation| self.action.as_ref().is_none_or(|wanted| wanted == name(*operation));
        all.filter(is_wanted).map(looked).collect()
    }

    /// Looks at a release, or at a part of its children, for all that the caller may do. What could be done to the parts before still can.
    fn take(&self, state: &Snapshot, release: &Release, looked: &mut [Looked]) {
        let is_wanted = |looked: &&mut Looked| {
            looked.refused.is_none() && !matches!(looked.can, Some(Ok(Effect::Something)))
        };
        let mut newcomers = Vec::new();
        for looked in looked.iter_mut().filter(is_wanted) {
            looked.can = Some(if looked.operation == Operation::Extend {
                // To plan it anew takes long: once, for whether there is somebody and for who that is.
                state.newcomers(&*self.seen, release, self.now).map(|new| {
                    newcomers = new;
                    if newcomers.is_empty() { Effect::Nothing } else { Effect::Something }
                })
            } else {
                state.can(&*self.seen, release, looked.operation, self.now)
            });
        }
        reach_all(state, release, &newcomers, looked);
    }
}

fn all_told(release: &Release, looked: Vec<Looked>) -> ReleaseActions {
    ReleaseActions {
        id: release.id.to_string(),
        tag: release.tag().to_string(),
        state: release.state.name().to_owned(),
        note_required: release.strategy.wants_notes(),
        actions: looked.into_iter().map(|looked| told(release, looked)).collect(),
    }
}

fn told(release: &Release, looked: Looked) -> ReleaseAction {
    let Looked { operation, refused, can, mut reach } = looked;
    let allowed = refused.is_none();
    let why = match (refused, can) {
        (Some(problem), _) => Some(problem.into_detail()),
        (None, Some(Ok(Effect::Something))) => None,
        (None, Some(Ok(Effect::Nothing)) | None) => Some(words::already(operation).to_owned()),
        (None, Some(Err(refusal))) => Some(refusal.to_string()),
    };
    ReleaseAction {
        action: name(operation).to_owned(),
        stage: words::stage(release, operation).map(str::to_owned),
        to: to(operation).map(str::to_owned),
        can: why.is_none(),
        why,
        allowed,
        does: words::does(release, operation, &reach),
        agents: reach.agents,
        waves: reach.waves,
        bounds: reach.bounds(),
        places: std::mem::take(&mut reach.places),
    }
}

/// The route of an operation, as rights are given for it.
fn path(operation: Operation) -> String {
    match operation {
        Operation::SkipStage(_) => "/api/v1/releases/{id}/stages/{stage}/skip".to_owned(),
        Operation::Approve
        | Operation::Pause
        | Operation::Resume
        | Operation::PromoteToGate
        | Operation::Promote
        | Operation::Retry
        | Operation::Extend
        | Operation::Abort => format!("/api/v1/releases/{{id}}/{}", name(operation)),
    }
}

/// An operation, whether it would do something, and whom it would reach.
struct Looked {
    operation: Operation,
    /// Why the caller may not: nothing is looked up for that.
    refused: Option<Problem>,
    /// `None`: it has yet to be looked at.
    can: Option<Result<Effect, Refusal>>,
    reach: Reach,
}

/// Walks over the children once for all operations.
fn reach_all(state: &Snapshot, release: &Release, newcomers: &[(ChildKey, u32)], looked: &mut [Looked]) {
    let mut possible: Vec<&mut Looked> =
        looked.iter_mut().filter(|looked| matches!(looked.can, Some(Ok(Effect::Something)))).collect();
    if possible.is_empty() {
        return;
    }
    let areas = state.children.areas();
    // Who was forgotten is reached by nothing.
    let parts = release.assignments.iter().filter(|(child, _)| state.children.get(**child).is_some());
    for (child, part) in giving_way(parts) {
        let middle = areas.middle(*child);
        for Looked { operation, reach, .. } in possible.iter_mut().map(|looked| &mut **looked) {
            reach.take(release.agents_reached(part, *operation), Some(part.wave), middle);
        }
    }
    let extend = possible.into_iter().find(|looked| looked.operation == Operation::Extend);
    if let Some(Looked { reach, .. }) = extend {
        for (child, agents) in giving_way(newcomers.iter()) {
            reach.take(*agents, None, areas.middle(*child));
        }
    }
}

/// What [`name`] gives, each once.
pub const NAMES: [&str; 8] = [
    name(Operation::Approve),
    name(Operation::Pause),
    name(Operation::Resume),
    name(Operation::Promote),
    name(Operation::SkipStage(0)),
    name(Operation::Retry),
    name(Operation::Extend),
    name(Operation::Abort),
];

const fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Approve => "approve",
        Operation::Pause => "pause",
        Operation::Resume => "resume",
        Operation::PromoteToGate | Operation::Promote => "promote",
        Operation::SkipStage(_) => "skip",
        Operation::Retry => "retry",
        Operation::Extend => "extend",
        Operation::Abort => "abort",
    }
}

/// How far it is promoted.
const fn to(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::PromoteToGate => Some("gate"),
        Operation::Promote => Some("all"),
        Operation::Approve
        | Operation::Pause
        | Operation::Resume
        | Operation::SkipStage(_)
        | Operation::Retry
        | Operation::Extend
        | Operation::Abort => None,
    }
}
