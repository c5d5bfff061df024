//! What a release would do, before anything happens.

mod bases;
mod form;
mod history;
mod make;
mod stages;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

use crate::{Context, v1::releases::upload::MAX_BODY_BYTES};

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(make::handle).layer(DefaultBodyLimit::max(MAX_BODY_BYTES)))
}
