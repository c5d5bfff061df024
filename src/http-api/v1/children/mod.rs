//! Children: who polls here, and what operators do to them.

mod act;
mod cordon;
mod drain;
mod forget;
mod label;
mod list;
mod revoke;
mod show;
mod tenant_labels;
mod uncordon;
mod unlabel;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{Context, extract::MAX_ACTION_BODY_BYTES};

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(show::handle, forget::handle))
        .routes(routes!(cordon::handle))
        .routes(routes!(uncordon::handle))
        .routes(routes!(drain::handle))
        .routes(routes!(revoke::handle))
        .routes(routes!(label::handle, unlabel::handle))
        .route_layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES))
        .routes(routes!(list::handle))
}
