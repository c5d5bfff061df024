//! The English of the tree.

pub const DONE: &str = "done";
pub const HELD: &str = "held";
pub const SILENT: &str = "silent";
pub const NO_ROOM: &str = "This page has no room for another one that is open.";
pub const ALONE: &str = "Open it alone";
