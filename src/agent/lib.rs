//! What stands beside a node: runs versions of functions there, and measures and judges what becomes of their calls.

pub mod judge;
pub mod measure;
pub mod runtime;
