//! `PUT /api/v1/tenants/{name}/limits`.

use axum::{Extension, Json, extract::State};

use super::form;
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{OptionalJson, Path, acting},
    problem::Problem,
    quota,
    scope::Scope,
};
use engine::settings::{Tenant, TenantChange};
use protocol::api::{self, NewLimits, Note};

/// Changes how much a tenant may have. What it has already stays, also where it is more.
#[utoipa::path(put, path = "/api/v1/tenants/{name}/limits", operation_id = "limit_tenant", tag = "tenants",
    params(("name" = String, Path, description = "The name of the tenant.")),
    request_body(content = NewLimits),
    responses((status = 200, body = api::Tenant)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    operator: Option<Extension<CallingOperator>>,
    Path(name): Path<String>,
    OptionalJson(body): OptionalJson<NewLimits>,
) -> Result<Json<api::Tenant>, Problem> {
    let Some(NewLimits { limits, by, note }) = body else {
        return Err(Problem::bad_request("the body must be JSON: {\"limits\": {\"releases\": 10}}"));
    };
    let by = acting(operator.as_deref(), Note { by, note })?;
    let name = form::seen(&scope, &name)?;
    let (tenant, _turn) = quota::alone(&ctx, &name).await?;
    let tenant = Tenant { limits: form::limits(tenant.limits, limits)?, ..tenant };
    ctx.engine.keep_tenant(tenant.clone(), TenantChange::Limited, by, PATIENCE).await?;
    Ok(Json(form::shown(&ctx, tenant).await?))
}
