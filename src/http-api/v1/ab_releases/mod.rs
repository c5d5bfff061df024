//! Releases of services as A/B releases: created from bodies, read from the release, acted on by the commands that every release has.

mod act;
mod advance;
pub(super) mod content;
mod create;
mod health;
mod list;
pub(super) mod lookup;
mod promote;
mod rollback;
mod show;
mod start;
mod traffic;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

use super::registry::MAX_SPEC_BYTES;
use crate::{Context, extract::MAX_ACTION_BODY_BYTES};

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(start::handle))
        .routes(routes!(advance::handle))
        .routes(routes!(promote::handle))
        .routes(routes!(rollback::handle))
        .route_layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES))
        .routes(routes!(create::handle).layer(DefaultBodyLimit::max(MAX_SPEC_BYTES)))
        .routes(routes!(list::handle))
        .routes(routes!(show::handle))
        .routes(routes!(traffic::handle))
        .routes(routes!(health::handle))
}
