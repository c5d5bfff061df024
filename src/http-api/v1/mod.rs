//! Developers' and operators' calls: one folder a noun, one file a verb.
//!
//! What is not over is read from a snapshot of the engine's state, the rest from the store. Lists come in pages
//! of a bounded size. Every error is a problem (RFC 9457), every action takes an optional note and goes into the
//! audit trail under the name of whoever acted.

mod ab_releases;
pub(super) mod audit;
mod callers;
pub mod canary_folder;
mod canary_releases;
mod children;
mod deployments;
mod environments;
mod intents;
pub mod map;
mod page;
mod plan;
mod registered_releases;
mod registry;
pub(super) mod releases;
mod rollout_strategies;
mod routers;
mod services;
pub mod status;
mod target_groups;
mod tenant;
mod tenants;
mod time;
mod traffic;
mod tree;
mod versions;
mod workflows;

pub(super) use page::MAX_LIMIT;
pub use registry::register_all;
use utoipa_axum::router::OpenApiRouter;

use super::Context;

/// The routes of developers and operators.
pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .merge(releases::router())
        .merge(plan::router())
        .merge(ab_releases::router())
        .merge(rollout_strategies::router())
        .merge(environments::router())
        .merge(target_groups::router())
        .merge(versions::router())
        .merge(canary_releases::router())
        .merge(registered_releases::router())
        .merge(children::router())
        .merge(deployments::router())
        .merge(callers::router())
        .merge(canary_folder::router())
        .merge(audit::router())
        .merge(status::router())
        .merge(tenants::router())
        .merge(routers::router())
        .merge(services::router())
        .merge(traffic::router())
        .merge(map::router())
        .merge(tree::router())
        .merge(workflows::router())
        .merge(intents::router())
}
