//! `POST /api/v1/releases/{id}/retry`.

use axum::{Json, extract::State};

use super::{
    act::act,
    canary::{check_retry, stands},
    if_match::{self, IfMatch},
};
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
};
use domain::release::{command::Command, lifecycle};
use protocol::api::{self, Note, Release};

/// Gives every child that failed, timed out, was unreachable, lost or left untested another attempt.
#[utoipa::path(post, path = "/api/v1/releases/{id}/retry", operation_id = "retry_release", tag = "releases",
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
    let command = Command::Lifecycle(lifecycle::Command::Retry { release: id.clone() });
    check_retry(&ctx, &id).await?;
    let retried = act(&ctx, &id, command, by.clone(), seen).await?;
    stands(&ctx, &id, by).await?;
    Ok(retried)
}
