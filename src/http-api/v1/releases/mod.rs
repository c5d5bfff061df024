//! Releases: submit, look at, and act on.

mod abort;
mod act;
pub mod actions;
pub(super) mod advice;
mod approve;
pub(super) mod canary;
mod canary_content;
mod canary_steps;
mod changed;
mod child_form;
mod children;
mod end_stage;
mod extend;
mod extend_analysis;
mod forward;
mod if_match;
mod list;
pub(crate) mod list_query;
mod offer;
mod pause;
mod promote;
mod resume;
mod retry;
mod retry_child;
mod rollback;
mod show;
mod skip_child;
mod skip_stage;
mod strategy;
pub(super) mod submit;
pub(super) mod upload;

pub(in crate::v1) use act::{check_note, roll_back};

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

use crate::{Context, extract::MAX_ACTION_BODY_BYTES};
use engine::presentation::release as form;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(pause::handle))
        .routes(routes!(resume::handle))
        .routes(routes!(abort::handle))
        .routes(routes!(approve::handle))
        .routes(routes!(promote::handle))
        .routes(routes!(extend::handle))
        .routes(routes!(extend_analysis::handle))
        .routes(routes!(skip_child::handle))
        .routes(routes!(retry_child::handle))
        .routes(routes!(retry::handle))
        .routes(routes!(rollback::handle))
        .routes(routes!(end_stage::handle))
        .routes(routes!(skip_stage::handle))
        .route_layer(DefaultBodyLimit::max(MAX_ACTION_BODY_BYTES))
        .routes(routes!(submit::handle).layer(DefaultBodyLimit::max(upload::MAX_BODY_BYTES)))
        .routes(routes!(list::handle))
        .routes(routes!(show::handle))
        .routes(routes!(actions::handle))
        .routes(routes!(children::handle))
        .routes(routes!(strategy::handle))
        .routes(routes!(offer::handle))
}
