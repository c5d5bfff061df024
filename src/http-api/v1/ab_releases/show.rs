//! `GET /api/v1/ab-releases/{id}`.

use axum::{Json, extract::State};

use super::lookup::find;
use crate::{Context, extract::Path, problem::Problem, scope::Scope};
use protocol::ab_releases::ABRelease;

/// Shows an A/B release with its stages.
#[utoipa::path(get, path = "/api/v1/ab-releases/{id}", operation_id = "show_ab_release", tag = "progressive delivery",
    params(("id" = String, Path, description = "Its UUID, or the id of the release.")),
    responses((status = 200, body = ABRelease)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<ABRelease>, Problem> {
    let found = find(&ctx, &scope, &id).await?;
    Ok(Json(found.whole(&ctx).await?))
}
