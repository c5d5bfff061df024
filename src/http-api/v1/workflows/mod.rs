//! Workflows: functions that are kept running on the machines of agents.

mod plan;

use axum::extract::DefaultBodyLimit;
use placement::MAX_WORKFLOW_BYTES;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

use crate::Context;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(plan::handle).layer(DefaultBodyLimit::max(MAX_WORKFLOW_BYTES)))
}
