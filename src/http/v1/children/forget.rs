//! `DELETE /api/v1/children/{id}`.

use axum::{extract::State, http::StatusCode};

use crate::{
    http::{
        Context,
        context::PATIENCE,
        extract::{Acting, Path},
        problem::Problem,
    },
    release::command::Command,
    wire::api::Note,
};

/// Forgets a child. Should it call again, it is taken in as a new one.
#[utoipa::path(delete, path = "/api/v1/children/{id}", operation_id = "forget_child", tag = "children",
    params(("id" = String, Path, description = "The id of the child.")),
    request_body(content = Option<Note>),
    responses((status = 204, description = "Forgotten.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(child): Path<String>,
    Acting(by): Acting,
) -> Result<StatusCode, Problem> {
    ctx.engine.call(Command::Forget { child }, by, PATIENCE).await?;
    Ok(StatusCode::NO_CONTENT)
}
