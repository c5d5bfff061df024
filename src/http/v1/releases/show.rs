//! `GET /api/v1/releases/{id}`.

use axum::{Json, extract::State, http::StatusCode};

use super::form;
use crate::{
    http::{Context, context::PATIENCE, extract::Path, problem::Problem},
    wire::api::ReleaseDetail,
};

/// Shows a release.
#[utoipa::path(get, path = "/api/v1/releases/{id}", operation_id = "show_release", tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy.")),
    responses((status = 200, body = ReleaseDetail)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
) -> Result<Json<ReleaseDetail>, Problem> {
    detail(&ctx, &id).await.map(Json)
}

/// A release with its strategy, from memory or from the store.
pub(super) async fn detail(ctx: &Context, id: &str) -> Result<ReleaseDetail, Problem> {
    let (wanted, now) = (id.to_owned(), ctx.engine.clock().now());
    let found = ctx
        .engine
        .query(PATIENCE, move |state| {
            state.release_by_id(&wanted).map(|release| form::detail(state, release, now))
        })
        .await?;
    if let Some(found) = found {
        return Ok(found);
    }
    let row = ctx.engine.reader().release(id).await?.ok_or_else(|| unknown(ctx, id))?;
    let runs = ctx.engine.reader().analysis_runs(row.release_key).await?;
    form::detail_from_row(&row, &runs)
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
