use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// How the time since the proxy started is cut into intervals, by its own clock, which doesn't jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    origin: Instant,
    length: Duration,
}

/// What both clocks show at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub now: Instant,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
}

impl Timeline {
    /// Intervals of so many seconds, at least one, from this instant on.
    #[must_use]
    pub fn new(origin: Instant, seconds: u32) -> Self {
        Self { origin, length: Duration::from_secs(u64::from(seconds.max(1))) }
    }

    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }

    /// The interval that an instant lies in, from 0 on.
    #[must_use]
    pub fn interval_at(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.origin).as_secs() / self.length.as_secs()
    }

    /// When an interval begins.
    #[must_use]
    pub fn start_of(&self, interval: u64) -> Instant {
        self.origin + Duration::from_secs(interval.saturating_mul(self.length.as_secs()))
    }

    /// What the wall's clock showed when an interval began, as far as it shows the right time now.
    #[must_use]
    pub fn wall_ms_of(&self, interval: u64, moment: Moment) -> i64 {
        moment.wall_ms_at(self.start_of(interval))
    }
}

impl Moment {
    /// This instant.
    #[must_use]
    pub fn now() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the proxy's one reading of the wall's clock, which only people read"
        )]
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { now: Instant::now(), wall_ms: wall.as_millis() as i64 }
    }

    /// What the wall's clock showed at an instant in the past.
    #[must_use]
    pub fn wall_ms_at(&self, at: Instant) -> i64 {
        let ago = self.now.saturating_duration_since(at).as_millis();
        self.wall_ms.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX))
    }
}
