//! The calls of children. Five of them are fixed: agents that can't be changed depend on every path, status and field.
//! The sixth, `/answers`, only managers make that were asked something, the seventh, `/join`, who gets a token of its own, the
//! eighth, `/traffic`, agents that lead a router, and the ninth, `/placements`, agents on whose machine functions are placed.
//!
//! What most traffic consists of (a poll with nothing new, a question whether a stage may end, a repeated
//! download) is answered from the view, without the engine and the store. Errors are a status and one line of text.

mod answers;
mod body;
mod caller;
mod end_stage;
mod functions;
mod join;
mod placements;
mod poll;
mod refused;
mod release;
mod reply;
pub(crate) mod result;
mod retry;
pub mod survey;
mod traffic;
mod wait;

use utoipa_axum::{router::OpenApiRouter, routes};

pub use self::{
    refused::{is_child_path, refusal, wrong_method},
    wait::{MAX_WAIT, MAX_WAITERS},
};
use super::Context;

/// Agents that a child may say are below it, unless configured otherwise: more belong under several managers.
pub const MAX_AGENTS: u32 = 100_000;

/// The routes of children.
pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(poll::handle))
        .routes(routes!(release::handle))
        .routes(routes!(functions::handle))
        .routes(routes!(result::handle))
        .routes(routes!(end_stage::handle))
        .routes(routes!(answers::handle))
        .routes(routes!(join::handle))
        .routes(routes!(traffic::handle))
        .routes(routes!(placements::handle))
}
