//! `DELETE /api/v1/registered-releases/{name}`.

use axum::{extract::State, http::StatusCode};

use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
    v1::{registry, tenant::tenant_of},
};
use protocol::{
    api::{self, Note},
    canary_releases::ReleaseSpec,
};

/// Removes a registered release that no release which is not over names.
#[utoipa::path(delete, path = "/api/v1/registered-releases/{name}", operation_id = "remove_registered_release", tag = "canaries",
    params(("name" = String, Path, description = "Its name or its UUID.")),
    request_body(content = Option<Note>),
    responses(
        (status = 204, description = "It is gone."),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "A release that is not over names it."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
    Acting(by): Acting,
) -> Result<StatusCode, Problem> {
    registry::remove::<ReleaseSpec>(&ctx, tenant_of(&scope), &name, by).await
}
