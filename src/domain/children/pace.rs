//! How often what a child says is stored while it comes no further by it.

use std::time::Duration;

use model::Now;

/// So much a child may have stored at once that brings it no further.
const AT_ONCE: u32 = 10;

/// And then once in each such serving time: with what came at once 16 times in a minute at most.
pub const ONCE_IN: Duration = Duration::from_secs(10);

/// It is said at most once in this serving time that one id seems to be that of two agents.
const CONFLICT_ONCE_IN: Duration = Duration::from_mins(10);

/// What a child has used of it, in whole seconds of serving time; in memory alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// All is free again from then on.
    used_until_s: u32,
    /// No conflict is said before.
    silent_until_s: u32,
}

impl Pace {
    pub const fn allows(self, now: Now) -> bool {
        self.used_until_s <= seconds(now).saturating_add((AT_ONCE - 1) * ONCE_IN.as_secs() as u32)
    }

    pub fn spend(&mut self, now: Now) {
        self.used_until_s = self.used_until_s.max(seconds(now)).saturating_add(ONCE_IN.as_secs() as u32);
    }

    /// Whether a conflict is to be said.
    pub const fn tells_conflicts(self, now: Now) -> bool {
        self.silent_until_s <= seconds(now)
    }

    pub const fn tell_conflict(&mut self, now: Now) {
        self.silent_until_s = seconds(now).saturating_add(CONFLICT_ONCE_IN.as_secs() as u32);
    }
}

const fn seconds(now: Now) -> u32 {
    (now.served_ms / 1_000) as u32
}
