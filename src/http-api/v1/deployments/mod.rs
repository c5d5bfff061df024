//! What runs where.

mod list;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list::handle))
}
