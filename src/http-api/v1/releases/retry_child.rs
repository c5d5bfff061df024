//! `POST /api/v1/releases/{id}/children/{child}/retry`.

use axum::{Json, extract::State};

use super::{
    act::act,
    if_match::{self, IfMatch},
};
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
};
use domain::release::{command::Command, members};
use protocol::api::{self, Note, Release};

/// Gives one child that ended badly another attempt.
#[utoipa::path(post, path = "/api/v1/releases/{id}/children/{child}/retry", operation_id = "retry_child",
    tag = "releases",
    params(
        ("id" = String, Path, description = "The id of the strategy."),
        ("child" = String, Path, description = "The id of the child."),
        if_match::Headers,
    ),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = Release, description = "It begins anew."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "It can't be retried, or the release is not under way."),
        (status = 412, body = api::Problem, content_type = "application/problem+json",
            description = "It is not as the caller has seen it; the detail says who did what since."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path((id, child)): Path<(String, String)>,
    seen: IfMatch,
    Acting(by): Acting,
) -> Result<Json<Release>, Problem> {
    let command = Command::Members(members::Command::Retry { release: id.clone(), child });
    act(&ctx, &id, command, by, seen).await
}
