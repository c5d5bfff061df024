//! What is common to the answers to children.

use axum::{
    body::Bytes,
    http::{HeaderValue, header},
    response::Response,
};

use crate::Context;
use domain::release::command::Refusal;
use engine::{EngineError, view::ChildEntry};

/// Notes the call of a child, and tells whether it may be answered: to be asked after what the answer was read from.
pub(super) fn heard_now(ctx: &Context, child: &ChildEntry) -> bool {
    let now = ctx.engine.clock().look();
    child.touch(now.served_ms);
    now.is_serving
}

/// A small JSON answer, ended by a line feed as deployed agents know it.
pub(super) fn json(body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Notes for operators who calls without being known.
pub(super) fn note_unknown(ctx: &Context, call: &'static str, error: &EngineError) {
    if let EngineError::Refused(Refusal::UnknownChild(id)) = error {
        ctx.view().unknown_callers.note(id, call, ctx.engine.clock().now().wall_ms);
    }
}
