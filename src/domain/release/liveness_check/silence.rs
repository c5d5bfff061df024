//! After how much silence the places of a wave go to others.

use crate::children::Child;
use language::{Rollout, Strategy};

/// What a strategy says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilenceLimits {
    /// In milliseconds of serving time; `MAX`: nobody is silent.
    pub after_ms: u64,
}

/// How long one child may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilenceLimit {
    after_ms: u64,
}

impl SilenceLimits {
    /// Those of a release with this strategy. Where the manager leads nothing, nobody is silent.
    pub fn of_strategy(strategy: &Strategy) -> Self {
        Self { after_ms: strategy.rollout.as_ref().map_or(u64::MAX, Rollout::silent_after_ms) }
    }

    /// That of a child. Whatever makes a difference between children makes it here.
    pub const fn of_child(self, _child: &Child) -> SilenceLimit {
        SilenceLimit { after_ms: self.after_ms }
    }
}

impl SilenceLimit {
    /// Whether a child that called last then is silent now, both in serving time.
    pub const fn is_passed(self, last_ms: u64, now_ms: u64) -> bool {
        now_ms.saturating_sub(last_ms) >= self.after_ms
    }
}
