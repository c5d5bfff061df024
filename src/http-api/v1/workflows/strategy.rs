//! `PUT /api/v1/workflows/{name}/strategy`.

use axum::{Extension, Json, extract::State};

use super::{form::Shown, plan::named_strategy};
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{OptionalJson, Path, acting},
    problem::Problem,
    scope::Scope,
};
use domain::{
    release::command::{Command, Refusal},
    workflows,
};
use engine::EngineError;
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
    let id = scope.release(&name);
    let command = workflows::Command::SetStrategy { id: id.clone(), strategy };
    match ctx.engine.call(Command::Workflows(command), by, PATIENCE).await {
        Ok(_) => {}
        // As the caller calls it.
        Err(EngineError::Refused(Refusal::UnknownWorkflow(_))) => {
            return Err(Refusal::UnknownWorkflow(name).into());
        }
        Err(error) => return Err(error.into()),
    }
    let found = Shown::read(&ctx, scope, move |shown| shown.detail(&id)).await?;
    found.map(Json).ok_or_else(|| Refusal::UnknownWorkflow(name).into())
}
