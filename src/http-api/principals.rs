//! Whom the configuration names, written down: tokens have names, and belong to tenants.

use std::collections::BTreeSet;

use super::{Context, context::PATIENCE};
use ab_releases::DEFAULT_TENANT;
use engine::{EngineError, principals::Principal};
use model::TenantName;

/// All tenants that are there, and whoever has a token of one or of the whole manager.
pub async fn of_configuration(ctx: &Context) -> Result<(), EngineError> {
    let tenants: BTreeSet<TenantName> =
        ctx.view().tenants.list().into_iter().map(|tenant| tenant.name).collect();
    let mut known: Vec<Principal> =
        tenants.iter().map(|tenant| Principal { tenant: tenant.to_string(), user: None }).collect();
    known.extend(tokens(ctx, |of| of.is_none_or(|tenant| tenants.contains(tenant))));
    ctx.engine.know(known, PATIENCE).await
}

/// Whoever has a token of this tenant, which is there from now on.
pub async fn of_tenant(ctx: &Context, tenant: &TenantName) -> Result<(), EngineError> {
    ctx.engine.know(tokens(ctx, |of| of == Some(tenant)).collect(), PATIENCE).await
}

/// Named as in the audit trail.
fn tokens(ctx: &Context, wanted: impl Fn(Option<&TenantName>) -> bool) -> impl Iterator<Item = Principal> {
    let operators = ctx.settings.auth.operators.iter();
    operators.filter(move |token| wanted(token.grant.tenant.as_ref())).map(|token| {
        match &token.grant.tenant {
            None => Principal { tenant: DEFAULT_TENANT.to_owned(), user: Some(token.name.clone()) },
            Some(tenant) => {
                Principal { tenant: tenant.to_string(), user: Some(format!("{tenant}/{}", token.name)) }
            }
        }
    })
}
