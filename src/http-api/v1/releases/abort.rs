//! `POST /api/v1/releases/{id}/abort`.

use axum::{Json, extract::State};

use super::{
    act::{act, roll_back},
    if_match::{self, IfMatch},
};
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
};
use protocol::api::{self, Note, Release};

/// Aborts a release: every child that may run the new version is told to go back.
#[utoipa::path(post, path = "/api/v1/releases/{id}/abort", operation_id = "abort_release", tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy."), if_match::Headers),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = Release, description = "Done, or it was so already."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "Not in the release's state."),
        (status = 412, body = api::Problem, content_type = "application/problem+json",
            description = "It is not as the caller has seen it; the detail says who did what since."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    seen: IfMatch,
    Acting(by): Acting,
) -> Result<Json<Release>, Problem> {
    act(&ctx, &id, roll_back(id.clone(), &by), by, seen).await
}
