//! The audit trail: what happened, and who did it.

pub mod form;
mod list;
pub mod visibility;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list::handle))
}
