//! Routers: what leads the calls of services, and what operators ask of it.

mod check;
mod list;
mod order;
pub(super) mod orders;
mod reload;
mod repair;
mod routes;
mod show;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{Context, extract::MAX_ACTION_BODY_BYTES};

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(check::handle))
        .routes(routes!(repair::handle))
        .routes(routes!(reload::handle))
        .route_layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES))
        .routes(routes!(list::handle))
        .routes(routes!(show::handle))
        .routes(routes!(routes::handle))
        .routes(routes!(order::handle))
}
