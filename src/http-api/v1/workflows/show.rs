//! `GET /api/v1/workflows/{name}`.

use axum::{Json, extract::State};

use super::form;
use crate::{Context, context::PATIENCE, extract::Path, problem::Problem, scope::Scope};
use domain::release::command::Refusal;
use protocol::api::WorkflowDetail;

/// Shows a workflow: which node runs which of its functions, and how far each is.
#[utoipa::path(get, path = "/api/v1/workflows/{name}", operation_id = "show_workflow", tag = "workflows",
    params(("name" = String, Path, description = "The name of the workflow.")),
    responses((status = 200, body = WorkflowDetail)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
) -> Result<Json<WorkflowDetail>, Problem> {
    let wanted = scope.release(&name);
    let read = move |state: &domain::release::state::Snapshot| {
        let workflow = state.workflows.get(&wanted).filter(|workflow| form::sees(&scope, workflow))?;
        Some(form::detail(state, &scope, workflow))
    };
    let found = ctx.engine.read_apart(PATIENCE, read).await?;
    found.map(Json).ok_or_else(|| Refusal::UnknownWorkflow(name).into())
}
