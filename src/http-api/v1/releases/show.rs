//! `GET /api/v1/releases/{id}`.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{AppendHeaders, IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form;
use crate::{
    Context,
    context::PATIENCE,
    extract::{Path, Query},
    problem::Problem,
    scope::Scope,
    v1::page::{path_below, unheard},
};
use engine::questions::{
    self, part,
    releases::{self, ReleaseWanted, ShowError},
};
use protocol::api::{PartBelow, ReleaseDetail};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Asks the managers below how their parts stand; that takes two seconds if one of them is silent.
    below: bool,
    /// Adds to each stage what its children measured there so far, all of them together.
    measured: bool,
    /// Shows the release of this id of a manager below: the ids that lead to it, with a `/` between. It is asked now, and nothing of
    /// it is kept.
    manager: Option<String>,
}

/// Shows a release.
#[utoipa::path(get, path = "/api/v1/releases/{id}", operation_id = "show_release", tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy."), Parameters),
    responses((status = 200, body = ReleaseDetail,
        headers(("ETag" = String, description = "The `tag`, in quotes, for the `If-Match` of actions.")))))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    let path = path_below(&ctx, &scope, parameters.manager.as_deref()).await?;
    if !path.is_empty() {
        return of_manager(&ctx, path, id, &parameters).await.map(IntoResponse::into_response);
    }
    let mut found = detail(&ctx, &id).await?;
    if parameters.below {
        look_below(&ctx, &mut found).await?;
    }
    if parameters.measured {
        releases::add_measured(&ctx.engine, &mut found).await.map_err(not_shown)?;
    }
    let tag = format!("\"{}\"", found.release.tag);
    Ok((AppendHeaders([(header::ETAG, tag)]), Json(found)).into_response())
}

/// A release of a manager below, as that one shows it.
async fn of_manager(
    ctx: &Context,
    path: Vec<String>,
    id: String,
    parameters: &Parameters,
) -> Result<Json<ReleaseDetail>, Problem> {
    if parameters.below || parameters.measured {
        return Err(Problem::bad_request(
            "`below` and `measured` are about this manager's release; with `manager` they say nothing",
        ));
    }
    let wanted = ReleaseWanted { path, release: id.clone() };
    let found = releases::ask_one_below(&ctx.engine, wanted).await.map_err(|why| unheard(&why))?;
    // Another than was asked for might be another's.
    let found = found.filter(|found| found.release.id == id);
    found.map(Json).ok_or_else(|| Problem::unknown_release(&id))
}

/// Parts below that are named as what a release waits for; the others are only counted.
const MAX_NAMED: usize = 3;

/// Adds what the managers below say of their parts.
async fn look_below(ctx: &Context, found: &mut ReleaseDetail) -> Result<(), Problem> {
    let id = found.release.id.clone();
    let managers = ctx.engine.read(PATIENCE, move |state| {
        state.release_by_id(&id).map(|release| part::managers(state, release)).unwrap_or_default()
    });
    let managers = managers.await?;
    if managers.is_empty() {
        return Ok(());
    }
    let (below, stages) =
        part::of_release(&ctx.engine, &found.release.id, managers, questions::PATIENCE).await;
    for stage in &mut found.stages {
        stage.agents_below = stages.get(&stage.name).cloned().unwrap_or_default();
    }
    found.below = below.into_iter().map(form::part_below).collect();
    let held: Vec<String> = found.below.iter().filter_map(holds).collect();
    if let Some(line) = found.release.waits_for.as_mut().filter(|_| !held.is_empty()) {
        let more = held.len().saturating_sub(MAX_NAMED);
        let more = (more > 0).then(|| format!("and {more} more below"));
        let named: Vec<String> = held.into_iter().take(MAX_NAMED).chain(more).collect();
        *line = format!("{line}; {}", named.join("; "));
    }
    Ok(())
}

/// Who below holds a part, and why.
fn holds(part: &PartBelow) -> Option<String> {
    let why = match part.state.as_deref() {
        Some("Planned" | "Paused" | "AwaitingApproval" | "RollingBack") => part.waits_for.as_deref()?,
        Some(_) => return None,
        None => return Some(format!("{} was not heard: {}", part.manager, part.reason.as_deref()?)),
    };
    Some(format!("{}: {why}", part.manager))
}

/// A release with its strategy, from memory or from the store.
pub(super) async fn detail(ctx: &Context, id: &str) -> Result<ReleaseDetail, Problem> {
    releases::detail(&ctx.engine, id).await.map_err(not_shown)?.ok_or_else(|| unknown(ctx, id))
}

fn not_shown(error: ShowError) -> Problem {
    match error {
        ShowError::Store(error) => error.into(),
        ShowError::Engine(error) => error.into(),
    }
}

/// Of a release that went up is said where it went.
pub(super) fn unknown(ctx: &Context, id: &str) -> Problem {
    let Some(to) = ctx.view().pointers.get(id) else { return Problem::unknown_release(id) };
    let detail = format!(
        "release {id} reaches beyond this manager's area and was handed to {to}; no child below this one takes part so \
         far. Ask there: choirmaster release show {id} --url {to}"
    );
    Problem::new(StatusCode::NOT_FOUND, "forwarded", detail)
}
