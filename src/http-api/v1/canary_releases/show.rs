//! `GET /api/v1/canary-releases/{id}`.

use axum::{Json, extract::State};

use super::lookup::find;
use crate::{Context, extract::Path, problem::Problem, scope::Scope};
use protocol::canary_releases::CanaryRelease;

/// Shows a canary: what was asked for, and where it stands.
#[utoipa::path(get, path = "/api/v1/canary-releases/{id}", operation_id = "show_canary_release", tag = "canaries",
    params(("id" = String, Path, description = "Its name or its UUID.")),
    responses((status = 200, body = CanaryRelease)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<CanaryRelease>, Problem> {
    find(&ctx, &scope, &id).await.map(Json)
}
