//! `POST /api/v1/releases/{id}/stages/{stage}/skip`.

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

/// Lets children pass over a stage that they have not begun, and ends it for those that are in it.
#[utoipa::path(post, path = "/api/v1/releases/{id}/stages/{stage}/skip", operation_id = "skip_stage",
    tag = "releases",
    params(
        ("id" = String, Path, description = "The id of the strategy."),
        ("stage" = String, Path, description = "The name of the stage."),
        if_match::Headers,
    ),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = Release, description = "Nobody begins it any more."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "No such stage, nothing follows it, the release does not run, or its children have the whole strategy in \
                hand."),
        (status = 412, body = api::Problem, content_type = "application/problem+json",
            description = "It is not as the caller has seen it; the detail says who did what since."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path((id, stage)): Path<(String, String)>,
    seen: IfMatch,
    Acting(by): Acting,
) -> Result<Json<Release>, Problem> {
    let command = Command::Stages(stages::Command::Skip { release: id.clone(), stage });
    act(&ctx, &id, command, by, seen).await
}
