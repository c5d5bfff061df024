//! `GET /api/v1/target-groups/{id}`.

use axum::{Json, extract::State};

use crate::{
    Context,
    extract::Path,
    problem::Problem,
    scope::Scope,
    v1::{registry, tenant::tenant_of},
};
use protocol::ab_releases::{TargetGroup, TargetGroupSpec};

/// Shows a target group.
#[utoipa::path(get, path = "/api/v1/target-groups/{id}", operation_id = "show_target_group", tag = "progressive delivery",
    params(("id" = String, Path, description = "Its UUID or its name.")),
    responses((status = 200, body = TargetGroup)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<TargetGroup>, Problem> {
    registry::show::<TargetGroupSpec>(&ctx, tenant_of(&scope), &id).await.map(Json)
}
