//! `GET /api/v1/tenants/{name}`.

use axum::{Json, extract::State};

use super::form;
use crate::{Context, extract::Path, problem::Problem, scope::Scope};
use protocol::api::Tenant;

/// Shows a tenant: what it has, and what it may have.
#[utoipa::path(get, path = "/api/v1/tenants/{name}", operation_id = "show_tenant", tag = "tenants",
    params(("name" = String, Path, description = "The name of the tenant.")),
    responses((status = 200, body = Tenant)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
) -> Result<Json<Tenant>, Problem> {
    let found = ctx.view().tenants.get(&form::seen(&scope, &name)?);
    Ok(Json(form::whole(&ctx, found.ok_or_else(|| Problem::unknown_tenant(&name))?).await?))
}
