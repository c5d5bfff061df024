//! `POST /api/v1/ab-releases/{id}/start`.

use axum::{Json, extract::State, http::StatusCode};

use super::{
    act::{act, resume},
    lookup::find,
};
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
};
use domain::release::state::ReleaseState;
use protocol::{
    ab_releases::ABRelease,
    api::{self, Note},
};

/// Starts an A/B release that was created.
#[utoipa::path(post, path = "/api/v1/ab-releases/{id}/start", operation_id = "start_ab_release",
    tag = "progressive delivery", params(("id" = String, Path, description = "Its UUID, or the id of the release.")),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = ABRelease, description = "It starts as soon as it can, or did so already."),
        (status = 409, body = api::Problem, content_type = "application/problem+json", description = "It is over."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Acting(by): Acting,
) -> Result<Json<ABRelease>, Problem> {
    let found = find(&ctx, &scope, &id).await?;
    let commands = match &found.now.state {
        ReleaseState::Planned if found.now.course().deferred => vec![resume(&found)],
        ReleaseState::Planned
        | ReleaseState::Running
        | ReleaseState::Paused(_)
        | ReleaseState::AwaitingApproval { .. } => Vec::new(),
        ReleaseState::RollingBack { .. } | ReleaseState::Over { .. } => {
            let detail = format!(
                "A/B release {} is over, or being taken back: create another one",
                found.recorded.release
            );
            return Err(Problem::new(StatusCode::CONFLICT, "wrong-state", detail));
        }
    };
    act(&ctx, &found, commands, by).await
}
