//! Templates of how a share grows, which releases may name.

mod list;
mod show;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list::handle)).routes(routes!(show::handle))
}
