//! `GET /api/v1/releases/{id}/strategy`.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::{Context, extract::Path, problem::Problem};

/// The strategy of a release, as it was submitted.
#[utoipa::path(get, path = "/api/v1/releases/{id}/strategy", operation_id = "show_strategy", tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy.")),
    responses((status = 200, body = Object, content_type = "application/yaml")))]
pub(super) async fn handle(State(ctx): State<Context>, Path(id): Path<String>) -> Result<Response, Problem> {
    let row = ctx.engine.reader().release(&id).await?.ok_or_else(|| Problem::unknown_release(&id))?;
    Ok(([(header::CONTENT_TYPE, "application/yaml")], row.strategy).into_response())
}
