//! Who gets what: the forms of routers and services, and what came of a release at its routers.

pub(super) mod form;
mod release;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(release::handle))
}
