//! How the manager stands, at a glance.
//!
//! Nothing here walks over all children or routers: who of them is to be looked at was found before ([`engine::fleet_check`]), and those that
//! are named are looked at once more. What is read beside that are the releases in memory. It is answered also while the store is
//! away and the lease is not fresh: then it says that, and nothing of the state.

mod fleet;
mod items;
mod manager;
mod releases;
mod show;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;

/// Where it is asked for.
pub const PATH: &str = "/api/v1/status";

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(show::handle))
}
