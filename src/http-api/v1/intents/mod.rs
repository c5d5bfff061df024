//! Intents of programs, as those that [`engine::intents`] takes from elsewhere.

mod carry_out;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;

/// Largest body, in bytes: room for as many intents as a call may have, each with as many nodes as it may have.
const MAX_BODY_BYTES: usize = 512 * 1024;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(carry_out::handle)).route_layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
}
