//! Services: what gets calls behind routers, and outlives its releases.

mod adopt;
mod list;
mod retire;
mod show;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{Context, extract::MAX_ACTION_BODY_BYTES};

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(retire::handle))
        .routes(routes!(adopt::handle))
        .route_layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES))
        .routes(routes!(list::handle))
        .routes(routes!(show::handle))
}
