//! `GET /api/v1/environments/{id}`.

use axum::{Json, extract::State};

use crate::{
    Context,
    extract::Path,
    problem::Problem,
    scope::Scope,
    v1::{registry, tenant::tenant_of},
};
use protocol::ab_releases::{Environment, EnvironmentSpec};

/// Shows an environment.
#[utoipa::path(get, path = "/api/v1/environments/{id}", operation_id = "show_environment", tag = "progressive delivery",
    params(("id" = String, Path, description = "Its UUID or its name.")),
    responses((status = 200, body = Environment)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<Environment>, Problem> {
    registry::show::<EnvironmentSpec>(&ctx, tenant_of(&scope), &id).await.map(Json)
}
