//! The tree of managers and agents, a level at a time.

mod show;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(show::handle))
}
