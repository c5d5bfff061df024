//! `POST /api/v1/workflows/{name}/move`.

use axum::{Extension, Json, extract::State};

use super::form::{carry_out, show};
use crate::{
    Context,
    auth::CallingOperator,
    extract::{OptionalJson, Path, acting},
    problem::Problem,
    scope::Scope,
};
use domain::workflows;
use protocol::api::{Note, WorkflowDetail, WorkflowMove};

/// Most nodes that a call names.
const MAX_NODES: usize = 100;

/// Moves a function to the first of some nodes that may run it.
///
/// It is started there first, and ends where it was once it runs; one that produces events by itself gets ready, and starts once the other
/// one has ended. If it can't be started, the old one stays. What it has in memory is lost.
#[utoipa::path(post, path = "/api/v1/workflows/{name}/move", operation_id = "move_function", tag = "workflows",
    params(("name" = String, Path, description = "The name of the workflow.")),
    request_body(content = WorkflowMove),
    responses(
        (status = 200, body = WorkflowDetail, description = "It moves, or is there already."),
        (status = 409, body = protocol::api::Problem, content_type = "application/problem+json",
            description = "None of the nodes may run it, or it moves already; the detail says why."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
    operator: Option<Extension<CallingOperator>>,
    OptionalJson(body): OptionalJson<WorkflowMove>,
) -> Result<Json<WorkflowDetail>, Problem> {
    let Some(WorkflowMove { function, nodes, by, note }) = body else {
        return Err(Problem::bad_request(
            "the body must be JSON: {\"function\": \"f\", \"nodes\": [\"id\"]}",
        ));
    };
    if nodes.is_empty() || nodes.len() > MAX_NODES {
        return Err(Problem::bad_request(format!("`nodes` has 1 to {MAX_NODES} ids")));
    }
    let by = acting(operator.as_deref(), Note { by, note })?;
    let command = workflows::Command::Move { id: scope.release(&name), part: function, nodes };
    carry_out(&ctx, by, &name, command).await?;
    show(&ctx, scope, name).await
}
