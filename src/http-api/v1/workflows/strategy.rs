//! `PUT /api/v1/workflows/{name}/strategy`.

use axum::{Extension, Json, extract::State};

use super::{
    form::{carry_out, show},
    plan::named_strategy,
};
use crate::{
    Context,
    auth::CallingOperator,
    extract::{OptionalJson, Path, acting},
    problem::Problem,
    scope::Scope,
};
use domain::workflows;
use protocol::api::{Note, WorkflowDetail, WorkflowStrategy};

/// Changes how one of several nodes is chosen for what is placed of a workflow from now on.
///
/// What runs already stays where it is.
#[utoipa::path(put, path = "/api/v1/workflows/{name}/strategy", operation_id = "set_workflow_strategy", tag = "workflows",
    params(("name" = String, Path, description = "The name of the workflow.")),
    request_body(content = WorkflowStrategy),
    responses((status = 200, body = WorkflowDetail)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
    operator: Option<Extension<CallingOperator>>,
    OptionalJson(body): OptionalJson<WorkflowStrategy>,
) -> Result<Json<WorkflowDetail>, Problem> {
    let Some(WorkflowStrategy { strategy, by, note }) = body else {
        return Err(Problem::bad_request("the body must be JSON: {\"strategy\": \"spread\"}"));
    };
    let strategy = strategy.as_deref().map(named_strategy).transpose()?;
    let by = acting(operator.as_deref(), Note { by, note })?;
    let command = workflows::Command::SetStrategy { id: scope.release(&name), strategy };
    carry_out(&ctx, by, &name, command).await?;
    show(&ctx, scope, name).await
}
