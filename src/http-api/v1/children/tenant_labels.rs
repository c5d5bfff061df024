//! Whether a child may be given a label: that of a tenant makes it the tenant's.

use axum::http::StatusCode;

use crate::{Context, context::PATIENCE, problem::Problem, quota, scope::Scope};
use model::{TENANT_LABEL, TenantName};

/// Refuses a label that the caller may not give, or take away. Only operators of the whole manager say whose a child is, and a tenant has no
/// more children than it may have. What is given back is held until the label is there.
pub(super) async fn may_give(
    ctx: &Context,
    scope: &Scope,
    child: &str,
    key: &str,
    value: Option<&str>,
) -> Result<Option<quota::QuotaLock>, Problem> {
    if key != TENANT_LABEL {
        return Ok(None);
    }
    if scope.tenant().is_some() {
        let detail =
            "whose a child is say operators of the whole manager, with a token that is bound to no tenant";
        return Err(Problem::new(StatusCode::FORBIDDEN, "whole-manager", detail));
    }
    // Where there are no tenants, it is a label like any other.
    let Some(value) = value.filter(|_| ctx.view().tenants.are_there()) else { return Ok(None) };
    let name = TenantName::parse(value).map_err(|error| Problem::bad_request(error.to_string()))?;
    let (wanted, of) = (child.to_owned(), name.clone());
    let is_own = move |state: &domain::release::state::Snapshot| {
        state.children.by_id(&wanted).is_some_and(|(_, child)| child.tenant() == Some(of.as_str()))
    };
    if ctx.engine.read(PATIENCE, is_own).await? {
        return Ok(None);
    }
    Ok(Some(quota::for_child(ctx, &name).await?))
}
