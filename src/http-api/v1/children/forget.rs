//! `DELETE /api/v1/children/{id}`.

use axum::{extract::State, http::StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    context::PATIENCE,
    extract::{Acting, Path, Query},
    problem::Problem,
};
use domain::children;
use domain::release::command::Command;
use protocol::api::Note;

/// What may be said beside the id.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Forget it even if it may run a new version that is to be taken back. Say so only if the machine is gone.
    #[serde(default)]
    force: bool,
}

/// Forgets a child, and revokes the token that it got by joining, if it did. Should it call again without one, it is taken in as a new one. One that owes an undo is forgotten only if
/// another has come back in its place, or with `force`.
#[utoipa::path(delete, path = "/api/v1/children/{id}", operation_id = "forget_child", tag = "children",
    params(("id" = String, Path, description = "The id of the child."), Parameters),
    request_body(content = Option<Note>),
    responses((status = 204, description = "Forgotten."), (status = 409, description = "It owes an undo.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(child): Path<String>,
    Query(parameters): Query<Parameters>,
    Acting(by): Acting,
) -> Result<StatusCode, Problem> {
    let forget = Command::Children(children::Command::Forget { child, even_if_it_owes: parameters.force });
    ctx.engine.call(forget, by, PATIENCE).await?;
    Ok(StatusCode::NO_CONTENT)
}
