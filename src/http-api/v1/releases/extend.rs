//! `POST /api/v1/releases/{id}/extend`.

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
use domain::release::{command::Command, rollout};
use protocol::api::{self, Note, Release};

/// Takes in every child that could take part and was not there when the release started.
#[utoipa::path(post, path = "/api/v1/releases/{id}/extend", operation_id = "extend_release", tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy."), if_match::Headers),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = Release, description = "They have a part in it now."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "It is not under way."),
        (status = 412, body = api::Problem, content_type = "application/problem+json",
            description = "It is not as the caller has seen it; the detail says who did what since."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    seen: IfMatch,
    Acting(by): Acting,
) -> Result<Json<Release>, Problem> {
    let command = Command::Rollout(rollout::Command::Extend { release: id.clone() });
    act(&ctx, &id, command, by, seen).await
}
