//! Environments: where a service takes calls, and what holds for each release of it.

mod list;
mod register;
mod remove;
mod show;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

use super::registry::MAX_SPEC_BYTES;
use crate::Context;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(register::handle).layer(DefaultBodyLimit::max(MAX_SPEC_BYTES)))
        .routes(routes!(list::handle))
        .routes(routes!(show::handle))
        .routes(routes!(remove::handle).layer(DefaultBodyLimit::max(MAX_SPEC_BYTES)))
}
