//! Callers that are not known here.

mod unknown;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(unknown::handle))
}
