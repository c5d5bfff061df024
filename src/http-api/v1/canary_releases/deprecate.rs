//! `DELETE /api/v1/canary-releases/{id}`.

use axum::{Json, extract::State};

use super::lookup::find;
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
    v1::releases::canary::deprecate,
};
use protocol::{
    api::{self, Note},
    canary_releases::CanaryRelease,
};

/// Deprecates a canary: all calls go to the version that served before. It stays in the history.
#[utoipa::path(delete, path = "/api/v1/canary-releases/{id}", operation_id = "deprecate_canary_release", tag = "canaries",
    params(("id" = String, Path, description = "Its name or its UUID.")),
    request_body(content = Option<Note>),
    responses(
        (status = 200, body = CanaryRelease, description = "It is on its way back, or was taken back already."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "It was adopted, or ended in another way."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Acting(by): Acting,
) -> Result<Json<CanaryRelease>, Problem> {
    let found = find(&ctx, &scope, &id).await?;
    deprecate(&ctx, &found.metadata.name, by).await?;
    find(&ctx, &scope, &found.metadata.uid).await.map(Json)
}
