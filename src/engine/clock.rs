//! Where the time comes from: the only place that reads the system's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::model::Now;

/// Wall time, and the serving time of a store continued from where the last manager left it.
#[derive(Debug, Clone)]
pub struct Clock {
    started: Instant,
    served_before_ms: u64,
}

impl Clock {
    /// Starts to count at `served_before_ms`.
    #[expect(clippy::disallowed_methods, reason = "the one place where clocks are read")]
    pub fn start(served_before_ms: u64) -> Self {
        Self { started: Instant::now(), served_before_ms }
    }

    /// Milliseconds served on this store, over all lives.
    pub fn served_ms(&self) -> u64 {
        self.served_before_ms + self.started.elapsed().as_millis() as u64
    }

    pub fn now(&self) -> Now {
        Now { wall_ms: wall_ms(), served_ms: self.served_ms() }
    }
}

/// Milliseconds since 1970, UTC; 0 if the system's clock stands before.
#[expect(clippy::disallowed_methods, reason = "the one place where clocks are read")]
pub fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
