//! Canaries of registered releases: looked at, and deprecated. `POST /release` creates and changes them
//! ([`crate::v1::releases::canary`]).

mod deprecate;
mod list;
mod lookup;
mod show;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

use crate::{Context, extract::MAX_ACTION_BODY_BYTES};

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list::handle))
        .routes(routes!(show::handle))
        .routes(routes!(deprecate::handle).layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES)))
}
