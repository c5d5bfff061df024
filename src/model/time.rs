//! The time, as an argument.

use serde::{Deserialize, Serialize};

/// An instant, read once at the edge and handed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Now {
    /// Milliseconds since 1970, UTC. Shown to people; no rule depends on it, so a clock that jumps does no harm.
    pub wall_ms: i64,
    /// Milliseconds that managers have served on this store, over all their lives. Deadlines are amounts of it,
    /// so that a manager which was down for two hours fires nothing at its start.
    pub served_ms: u64,
}
