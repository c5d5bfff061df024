//! `DELETE /api/v1/workflows/{name}`.

use axum::{extract::State, http::StatusCode};

use crate::{
    Context,
    context::PATIENCE,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
};
use domain::{
    release::command::{Command, Refusal},
    workflows,
};
use engine::EngineError;

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
    match ctx.engine.call(Command::Workflows(command), by, PATIENCE).await {
        Ok(_) => Ok(StatusCode::ACCEPTED),
        // As the caller calls it.
        Err(EngineError::Refused(Refusal::UnknownWorkflow(_))) => Err(Refusal::UnknownWorkflow(name).into()),
        Err(error) => Err(error.into()),
    }
}
