//! What stands beside a node, and runs versions of functions there.

pub mod content;
pub mod link;
pub mod runtime;
