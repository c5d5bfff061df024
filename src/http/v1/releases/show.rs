//! `GET /api/v1/releases/{id}`.

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form;
use crate::{
    Context,
    context::PATIENCE,
    extract::{Path, Query},
    problem::Problem,
};
use engine::{questions, questions::part};
use wire::api::{PartBelow, ReleaseDetail};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Asks the managers below how their parts stand; that takes two seconds if one of them is silent.
    below: bool,
}

/// Shows a release.
#[utoipa::path(get, path = "/api/v1/releases/{id}", operation_id = "show_release", tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy."), Parameters),
    responses((status = 200, body = ReleaseDetail)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<ReleaseDetail>, Problem> {
    let mut found = detail(&ctx, &id).await?;
    if parameters.below {
        look_below(&ctx, &mut found).await?;
    }
    Ok(Json(found))
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
    let (wanted, now) = (id.to_owned(), ctx.engine.clock().now());
    let found = ctx
        .engine
        .read(PATIENCE, move |state| {
            state.release_by_id(&wanted).map(|release| form::detail(state, release, now))
        })
        .await?;
    if let Some(found) = found {
        return Ok(found);
    }
    let row = ctx.engine.reader().release(id).await?.ok_or_else(|| unknown(ctx, id))?;
    let runs = ctx.engine.reader().analysis_runs(row.release_key).await?;
    form::detail_from_row(&row, &runs, ctx.engine.unreadable())
}

/// Of a release that went up is said where it went.
fn unknown(ctx: &Context, id: &str) -> Problem {
    let Some(to) = ctx.view().pointers.get(id) else { return Problem::unknown_release(id) };
    let detail = format!(
        "release {id} reaches beyond this manager's area and was handed to {to}; no child below this one takes part so \
         far. Ask there: choirmaster release show {id} --url {to}"
    );
    Problem::new(StatusCode::NOT_FOUND, "forwarded", detail)
}
