//! `DELETE /api/v1/tenants/{name}`.

use axum::{extract::State, http::StatusCode};

use super::form;
use crate::{
    Context,
    context::PATIENCE,
    extract::{Acting, Path},
    problem::Problem,
    quota,
    scope::Scope,
};
use engine::{
    settings::{Tenant, TenantChange},
    tenants::unfinished,
};
use protocol::api::Note;

/// Deletes a tenant that has no unfinished releases. Its tokens open nothing from then on. What happened stays in the audit trail, its releases
/// in the history, and its name is not given again; its children keep their label until an operator says whose they are now.
#[utoipa::path(delete, path = "/api/v1/tenants/{name}", operation_id = "delete_tenant", tag = "tenants",
    params(("name" = String, Path, description = "The name of the tenant.")),
    request_body(content = Option<Note>),
    responses((status = 204, description = "Deleted."), (status = 409, description = "It has unfinished releases.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
    Acting(by): Acting,
) -> Result<StatusCode, Problem> {
    let name = form::seen(&scope, &name)?;
    // Nothing is submitted meanwhile.
    let (tenant, _turn) = quota::alone(&ctx, &name).await?;
    let wanted = name.clone();
    let open = ctx.engine.read(PATIENCE, move |state| unfinished(state, &wanted)).await?;
    if open > 0 {
        let releases =
            if open == 1 { "1 unfinished release".to_owned() } else { format!("{open} unfinished releases") };
        let detail = format!("tenant {name} has {releases}: abort them, or wait for their ends");
        return Err(Problem::new(StatusCode::CONFLICT, "wrong-state", detail));
    }
    let tenant = Tenant { is_deleted: true, ..tenant };
    ctx.engine.keep_tenant(tenant, TenantChange::Deleted, by, PATIENCE).await?;
    Ok(StatusCode::NO_CONTENT)
}
