//! Workflows: functions that are kept running on the machines of agents.

mod form;
mod list;
mod move_function;
mod plan;
mod show;
mod start;
mod stop;
mod strategy;

use axum::extract::DefaultBodyLimit;
use placement::MAX_WORKFLOW_BYTES;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

use crate::{Context, extract::MAX_ACTION_BODY_BYTES};
use language::functions::MAX_UPLOAD_BYTES;

/// The largest workflow and zip, and what multipart puts around them.
const MAX_START_BYTES: usize = MAX_UPLOAD_BYTES as usize + MAX_WORKFLOW_BYTES + 64 * 1024;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(move_function::handle).layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES)))
        .routes(routes!(strategy::handle).layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES)))
        .routes(routes!(stop::handle).layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES)))
        .routes(routes!(plan::handle).layer(DefaultBodyLimit::max(MAX_WORKFLOW_BYTES)))
        .routes(routes!(start::handle).layer(DefaultBodyLimit::max(MAX_START_BYTES)))
        .routes(routes!(list::handle))
        .routes(routes!(show::handle))
}
