//! `GET /api/v1/tenants`.

use axum::{Json, extract::State};

use super::form;
use crate::{Context, problem::Problem, scope::Scope};
use protocol::api::{Page, Tenant};

/// Lists the tenants, by name. With a token that is bound to one: this one alone.
#[utoipa::path(get, path = "/api/v1/tenants", operation_id = "list_tenants", tag = "tenants",
    responses((status = 200, body = Page<Tenant>)))]
pub(super) async fn handle(State(ctx): State<Context>, scope: Scope) -> Result<Json<Page<Tenant>>, Problem> {
    let mut items = Vec::new();
    for tenant in ctx.view().tenants.list() {
        if scope.tenant().is_none_or(|own| *own == tenant.name) {
            items.push(form::shown(&ctx, tenant).await?);
        }
    }
    Ok(Json(Page { items, next: None }))
}
