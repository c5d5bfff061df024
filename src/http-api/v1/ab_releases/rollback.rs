//! `POST /api/v1/ab-releases/{id}/rollback`.

use axum::{Json, extract::State};

use super::{
    act::{act, roll_back},
    lookup::find,
};
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
};
use protocol::{
    ab_releases::ABRelease,
    api::{self, Note},
};

/// Takes an A/B release back: the stable variation gets all calls again. One that has not begun never will.
#[utoipa::path(post, path = "/api/v1/ab-releases/{id}/rollback", operation_id = "roll_back_ab_release",
    tag = "progressive delivery", params(("id" = String, Path, description = "Its UUID, or the id of the release.")),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = ABRelease, description = "It is taken back, or was so already."),
        (status = 409, body = api::Problem, content_type = "application/problem+json", description = "It has completed."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Acting(by): Acting,
) -> Result<Json<ABRelease>, Problem> {
    let found = find(&ctx, &scope, &id).await?;
    let command = roll_back(&found, &by);
    act(&ctx, &found, vec![command], by).await
}
