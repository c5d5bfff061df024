//! The HTTP edge: parses, asks the view or the engine, answers. No rule lives here.
//!
//! Two surfaces: the five calls of children ([`child`]), fixed because deployed agents can't be changed, with
//! errors of one line of text; and everything for developers and operators ([`v1`]), with RFC 9457 errors.

pub mod child;
pub mod context;
pub mod problem;
pub mod serve;

pub use context::Context;
