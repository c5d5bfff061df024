//! The control of an agent: a small HTTP over a unix socket that its owner alone may open, for people and for what watches over it.
//!
//! | call | answer |
//! |---|---|
//! | `GET /status` | how the agent stands |
//! | `POST /undo` `{function?, why?}` | takes the new version's share to 0 and the release back, of one function or of all; 409 where there is nothing to undo |
//! | `GET /functions` | what is served |
//! | `PUT /functions/NAME` `{folder, runner?, sticky?, retry?}` | serves a function before any release; 409 while a release has it in hand |
//! | `DELETE /functions/NAME` | serves it no longer; 409 while a release has it in hand |
//! | `GET /logs?function=NAME&version=new` | the bounded log of a version: `new`, `base` or, without that, whichever is newest |
//! | `GET /logs?release=ID` | what versions wrote that failed in a release and have ended: of the last three that failed, 64 KiB each |
//! | `GET /metrics` | metrics in the text format of Prometheus |
//! | `GET /healthz` | 200 while the agent answers and its proxy does; else 503 with what is wrong |
//!
//! A function that isn't known is 404 with the name that is most like it. An answer that isn't 2xx says why: `{"error": "…"}`. The
//! control decides nothing: each question is an [`Order`] to whoever drives the agent. Metrics and health may be served on an address
//! as well, and nothing else is there.

pub mod client;
pub mod form;
mod metrics;
mod order;
mod serve;

pub use self::{
    order::{Answering, Order, Refused},
    serve::{CARRY_OUT, Control, ControlError, open},
};

/// The most bytes of what is asked.
pub const MAX_QUESTION: usize = 64 * 1024;

/// The most bytes of a reason.
pub const MAX_WHY: usize = 1024;

/// The most bytes of a log that are shown, the newest.
pub const MAX_LOG: usize = 16 * 1024 * 1024;
