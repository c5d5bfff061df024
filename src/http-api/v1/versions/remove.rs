//! `DELETE /api/v1/versions/{id}`.

use axum::{extract::State, http::StatusCode};

use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
    v1::{registry, tenant::tenant_of},
};
use protocol::{
    ab_releases::VersionSpec,
    api::{self, Note},
};

/// Removes a version that no release which is not over names.
#[utoipa::path(delete, path = "/api/v1/versions/{id}", operation_id = "remove_version", tag = "progressive delivery",
    params(("id" = String, Path, description = "Its UUID or its name.")),
    request_body(content = Option<Note>),
    responses(
        (status = 204, description = "It is gone."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "A release that is not over names it."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Acting(by): Acting,
) -> Result<StatusCode, Problem> {
    registry::remove::<VersionSpec>(&ctx, tenant_of(&scope), &id, by).await
}
