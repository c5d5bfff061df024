//! `GET /api/v1/versions/{id}`.

use axum::{Json, extract::State};

use crate::{
    Context,
    extract::Path,
    problem::Problem,
    scope::Scope,
    v1::{registry, tenant::tenant_of},
};
use protocol::ab_releases::{RegisteredVersion, VersionSpec};

/// Shows a version.
#[utoipa::path(get, path = "/api/v1/versions/{id}", operation_id = "show_version", tag = "progressive delivery",
    params(("id" = String, Path, description = "Its UUID or its name.")),
    responses((status = 200, body = RegisteredVersion)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<RegisteredVersion>, Problem> {
    registry::show::<VersionSpec>(&ctx, tenant_of(&scope), &id).await.map(Json)
}
