//! `POST /api/v1/releases/{id}/promote`.

use axum::{Json, extract::State};

use super::act::act;
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
};
use heart::release::{command::Command, rollout};
use wire::api::{self, Note, Release};

/// Opens what is left of waves, stages, soaks and approvals at once. Limits hold.
#[utoipa::path(post, path = "/api/v1/releases/{id}/promote", operation_id = "promote_release", tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy.")),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = Release, description = "It goes on, or did so already."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "It does not run."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    Acting(by): Acting,
) -> Result<Json<Release>, Problem> {
    let command = Command::Rollout(rollout::Command::Promote { release: id.clone() });
    act(&ctx, &id, command, by).await
}
