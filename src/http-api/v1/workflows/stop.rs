//! `DELETE /api/v1/workflows/{name}`.

use axum::{extract::State, http::StatusCode};

use super::form::carry_out;
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
};
use domain::workflows;

/// Stops a workflow. It is gone once its nodes have said that nothing of it runs any more.
#[utoipa::path(delete, path = "/api/v1/workflows/{name}", operation_id = "stop_workflow", tag = "workflows",
    params(("name" = String, Path, description = "The name of the workflow.")),
    responses((status = 202, description = "It stops, or did so already.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
    Acting(by): Acting,
) -> Result<StatusCode, Problem> {
    let command = workflows::Command::Stop { id: scope.release(&name) };
    carry_out(&ctx, by, &name, command).await?;
    Ok(StatusCode::ACCEPTED)
}
