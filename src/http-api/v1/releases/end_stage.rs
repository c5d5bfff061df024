//! `POST /api/v1/releases/{id}/stages/{stage}/end`.

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
use domain::release::{command::Command, stages};
use protocol::api::{self, Note, Release};

/// Ends a stage now, for every child that is in it.
#[utoipa::path(post, path = "/api/v1/releases/{id}/stages/{stage}/end", operation_id = "end_stage_now",
    tag = "releases",
    params(
        ("id" = String, Path, description = "The id of the strategy."),
        ("stage" = String, Path, description = "The name of the stage."),
        if_match::Headers,
    ),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = Release, description = "Its children are told to end it."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "No such stage, or the release does not run."),
        (status = 412, body = api::Problem, content_type = "application/problem+json",
            description = "It is not as the caller has seen it; the detail says who did what since."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path((id, stage)): Path<(String, String)>,
    seen: IfMatch,
    Acting(by): Acting,
) -> Result<Json<Release>, Problem> {
    let command = Command::Stages(stages::Command::End { release: id.clone(), stage });
    act(&ctx, &id, command, by, seen).await
}
