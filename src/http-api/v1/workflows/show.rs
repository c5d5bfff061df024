//! `GET /api/v1/workflows/{name}`.

use axum::{Json, extract::State};

use super::form::show;
use crate::{Context, extract::Path, problem::Problem, scope::Scope};
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
    show(&ctx, scope, name).await
}
