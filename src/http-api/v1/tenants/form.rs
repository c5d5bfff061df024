//! Tenants as the API shows them.

use crate::{Context, context::PATIENCE, problem::Problem, scope::Scope, v1::time::rfc3339};
use ab_releases::{Kind, Uuid};
use engine::{
    settings::{Limits, Tenant},
    tenants::unfinished,
};
use model::TenantName;
use protocol::api::{self, TenantLimits, TenantRoom, TenantUser};
use store::{MAX_PAGE, rows::UserRow};

/// Most that a limit may be: beyond that a number has another value in a client that knows only floating points.
pub const MAX_LIMIT: u64 = 1_000_000_000_000_000;

/// A tenant with what it has.
pub async fn shown(ctx: &Context, tenant: Tenant) -> Result<api::Tenant, Problem> {
    let name = tenant.name.clone();
    let look = move |state: &domain::release::state::Snapshot| {
        (state.children.of_tenant(name.as_str()), unfinished(state, &name))
    };
    let (children, releases) = ctx.engine.read(PATIENCE, look).await?;
    let bytes = ctx.engine.reader().bytes_of(&tenant.name.prefix()).await?;
    let limits = tenant.limits;
    let id = Uuid::of(Kind::Tenant, &[tenant.name.as_str()]).to_string();
    Ok(api::Tenant {
        id,
        users: None,
        name: tenant.name.to_string(),
        created: rfc3339(tenant.created_ms),
        children: TenantRoom { used: u64::from(children), limit: limits.children },
        releases: TenantRoom { used: releases, limit: limits.releases },
        bytes: TenantRoom { used: bytes, limit: limits.bytes },
    })
}

/// The same with its users.
pub async fn whole(ctx: &Context, tenant: Tenant) -> Result<api::Tenant, Problem> {
    let rows = ctx.engine.reader().users(tenant.name.as_str(), "", MAX_PAGE).await?;
    let user = |row: UserRow| TenantUser { name: row.name, id: row.id, since: rfc3339(row.at_ms) };
    let users = Some(rows.into_iter().map(user).collect());
    Ok(api::Tenant { users, ..shown(ctx, tenant).await? })
}

/// Limits, changed where something is said of them.
pub fn limits(before: Limits, said: TenantLimits) -> Result<Limits, Problem> {
    if [said.children, said.releases, said.bytes].into_iter().flatten().any(|limit| limit > MAX_LIMIT) {
        return Err(Problem::bad_request(format!("a limit is at most {MAX_LIMIT}")));
    }
    Ok(Limits {
        children: said.children.unwrap_or(before.children),
        releases: said.releases.unwrap_or(before.releases),
        bytes: said.bytes.unwrap_or(before.bytes),
    })
}

/// A tenant that the caller sees: any, or itself. Another is as one that is not there.
pub fn seen(scope: &Scope, name: &str) -> Result<TenantName, Problem> {
    let found = TenantName::parse(name).ok();
    found
        .filter(|name| scope.tenant().is_none_or(|own| own == name))
        .ok_or_else(|| Problem::unknown_tenant(name))
}
