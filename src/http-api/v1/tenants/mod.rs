//! Tenants: who shares this manager, and how much of it each may take.

mod create;
mod delete;
mod form;
mod limit;
mod list;
mod show;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{Context, extract::MAX_ACTION_BODY_BYTES};

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list::handle, create::handle))
        .routes(routes!(show::handle, delete::handle))
        .routes(routes!(limit::handle))
        .route_layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES))
}
