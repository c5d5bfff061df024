//! What stands beside a node, and runs versions of functions there.

pub mod runtime;

pub mod core;
pub mod judge;
pub mod measure;
