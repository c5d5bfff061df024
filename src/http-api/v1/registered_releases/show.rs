//! `GET /api/v1/registered-releases/{name}`.

use axum::{Json, extract::State};

use crate::{
    Context,
    extract::Path,
    problem::Problem,
    scope::Scope,
    v1::{registry, tenant::tenant_of},
};
use protocol::canary_releases::{RegisteredRelease, ReleaseSpec};

/// Shows a registered release: its services, its versions, and the one that serves.
#[utoipa::path(get, path = "/api/v1/registered-releases/{name}", operation_id = "show_registered_release", tag = "canaries",
    params(("name" = String, Path, description = "Its name or its UUID.")),
    responses((status = 200, body = RegisteredRelease)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
) -> Result<Json<RegisteredRelease>, Problem> {
    registry::show::<ReleaseSpec>(&ctx, tenant_of(&scope), &name).await.map(Json)
}
