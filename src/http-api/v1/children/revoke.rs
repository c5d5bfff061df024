//! `DELETE /api/v1/children/{id}/token`.

use axum::{extract::State, http::StatusCode};

use crate::{
    Context,
    context::PATIENCE,
    extract::{Acting, Path},
    problem::Problem,
};
use protocol::api::Note;

/// Makes the token useless that a child got when it joined; its calls are refused until it joins anew, as another child.
/// Tokens of `auth.child_token_file` stand there, and end when they are taken out of it.
#[utoipa::path(delete, path = "/api/v1/children/{id}/token", operation_id = "revoke_child_token", tag = "children",
    params(("id" = String, Path, description = "The id of the child.")),
    request_body(content = Option<Note>),
    responses((status = 204, description = "Revoked, or it was so already."), (status = 404, description = "It has not \
        joined, or under another id.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(child): Path<String>,
    Acting(by): Acting,
) -> Result<StatusCode, Problem> {
    if ctx.engine.revoke_token(&child, by, PATIENCE).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let child: String = child.chars().take(MAX_SHOWN).collect();
    let detail = format!("{child} has no token that it got by joining");
    Err(Problem::new(StatusCode::NOT_FOUND, "no-token", detail))
}

/// Longest part of an id that an answer repeats, in characters.
const MAX_SHOWN: usize = 200;
