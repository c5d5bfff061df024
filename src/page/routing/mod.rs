//! Who gets which share of calls: by router, and by service over all its routers.

mod router;
mod routers;
mod service;
mod services;
mod traffic_shares;

use axum::{Router, routing::get};

use crate::context::Page;

pub fn router() -> Router<Page> {
    Router::new()
        .route("/ui/routers", get(routers::handle))
        .route("/ui/routers/{id}", get(self::router::handle))
        .route("/ui/services", get(services::handle))
        .route("/ui/services/{name}", get(service::handle))
}
