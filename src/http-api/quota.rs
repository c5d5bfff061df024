//! What tenants have left of what they may have.
//!
//! Whoever looks holds the tenant's turn until what was looked at is stored, so that no two calls take the same room: limits are never
//! passed, not even by one. Nothing is counted here that grows with the number of children: how many a tenant has is kept with them.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::timeout,
};

use super::{Context, context::PATIENCE, problem::Problem};
use engine::{EngineError, settings::Tenant, tenants::unfinished};
use model::TenantName;

/// Held by who takes of what a tenant has left.
pub type QuotaLock = OwnedMutexGuard<()>;

/// Why there is no room.
#[derive(Debug, thiserror::Error)]
pub enum QuotaExceeded {
    #[error("tenant {0} is not known")]
    UnknownTenant(TenantName),
    #[error("tenant {name} has as many children as it may have: {limit} (the limit `children`)")]
    Children { name: TenantName, limit: u64 },
    #[error("tenant {name} has as many unfinished releases as it may have: {limit} (the limit `releases`)")]
    Releases { name: TenantName, limit: u64 },
    #[error(
        "tenant {name} would have {bytes} bytes of strategies and functions, and may have {limit} (the limit `bytes`)"
    )]
    Bytes { name: TenantName, bytes: u64, limit: u64 },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

impl QuotaExceeded {
    /// As it is answered.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::UnknownTenant(_) => StatusCode::NOT_FOUND,
            Self::Children { .. } | Self::Releases { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Bytes { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Engine(_) | Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl From<QuotaExceeded> for Problem {
    fn from(why: QuotaExceeded) -> Self {
        let (status, detail) = (why.status(), why.to_string());
        match why {
            QuotaExceeded::UnknownTenant(name) => Self::unknown_tenant(name.as_str()),
            QuotaExceeded::Children { .. } | QuotaExceeded::Releases { .. } | QuotaExceeded::Bytes { .. } => {
                Self::new(status, "tenant-limit", detail)
            }
            QuotaExceeded::Engine(error) => error.into(),
            QuotaExceeded::Store(error) => error.into(),
        }
    }
}

/// A tenant that is there, when it is the caller's turn.
async fn turn(ctx: &Context, name: &TenantName) -> Result<(Tenant, QuotaLock), QuotaExceeded> {
    let turn: Option<Arc<Mutex<()>>> = ctx.view().tenants.turn(name);
    let turn = turn.ok_or_else(|| QuotaExceeded::UnknownTenant(name.clone()))?;
    let held = timeout(PATIENCE, turn.lock_owned()).await.map_err(|_| EngineError::Busy)?;
    // What it may have, and whether it is there at all, as it is now.
    let tenant = ctx.view().tenants.get(name).ok_or_else(|| QuotaExceeded::UnknownTenant(name.clone()))?;
    Ok((tenant, held))
}

/// For one more child.
pub async fn for_child(ctx: &Context, name: &TenantName) -> Result<QuotaLock, QuotaExceeded> {
    let (tenant, held) = turn(ctx, name).await?;
    let (wanted, limit) = (name.clone(), tenant.limits.children);
    let has = ctx.engine.read(PATIENCE, move |state| state.children.of_tenant(wanted.as_str())).await?;
    if u64::from(has) < limit { Ok(held) } else { Err(QuotaExceeded::Children { name: name.clone(), limit }) }
}

/// For one more release, which is not known yet, of so many bytes.
pub async fn for_release(ctx: &Context, name: &TenantName, bytes: u64) -> Result<QuotaLock, QuotaExceeded> {
    let (tenant, held) = turn(ctx, name).await?;
    let (wanted, limits) = (name.clone(), tenant.limits);
    let open = ctx.engine.read(PATIENCE, move |state| unfinished(state, &wanted)).await?;
    if open >= limits.releases {
        return Err(QuotaExceeded::Releases { name: name.clone(), limit: limits.releases });
    }
    let bytes = ctx.engine.reader().bytes_of(&name.prefix()).await?.saturating_add(bytes);
    if bytes > limits.bytes {
        return Err(QuotaExceeded::Bytes { name: name.clone(), bytes, limit: limits.bytes });
    }
    Ok(held)
}

/// The tenant's turn alone, for who changes the tenant itself.
pub async fn alone(ctx: &Context, name: &TenantName) -> Result<(Tenant, QuotaLock), QuotaExceeded> {
    turn(ctx, name).await
}
