//! The nouns of the domain: ids, areas, capabilities, children.
//!
//! Everything here is a parsed value: once it exists it is valid, and no later code checks it again.
//! Pure: no clock, no network, no database.

pub mod id;
pub mod status;

pub use id::{ChildId, ChildKey, IdError, ReleaseId, ReleaseKey};
pub use status::StageStatus;
