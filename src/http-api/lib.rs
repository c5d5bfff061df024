//! The HTTP edge: parses, asks the view or the engine, answers. No rule lives here.
//!
//! Two surfaces: the calls of children ([`child`]), fixed (but for `/answers` and `/join`) because deployed agents can't be changed, with
//! errors of one line of text; and everything for developers and operators ([`v1`] and what watches a manager), with
//! RFC 9457 errors. They can be served on one address or on two.

pub mod address;
pub mod auth;
pub mod child;
pub mod context;
mod events;
mod extract;
mod guard;
mod health;
pub mod host;
mod in_process;
mod joins;
mod metered_body;
mod metrics;
pub mod openapi;
mod operators;
mod principals;
pub mod problem;
mod quota;
pub mod rights;
mod routes;
pub mod scope;
pub mod serve;
pub mod service_area;
pub mod session;
pub mod v1;

pub use context::Context;
pub use in_process::InProcess;
pub use operators::Operators;
/// Parts of the edge that tests try alone, without a server. Nobody else uses them.
#[doc(hidden)]
pub mod tried_alone {
    pub use crate::{
        child::{result::read as summary, survey},
        metered_body::{FREE_BYTES, MemoryReservation, MeteredBody},
    };
}

pub use routes::{child_router, operator_router, router};
