//! Releases that canaries name. `POST /release` registers them, with their manifests ([`crate::v1::releases::canary`]).

mod list;
mod remove;
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
        .routes(routes!(remove::handle).layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES)))
}
