//! Windows: what is counted from some instant on, as if there had been nothing before.

use std::time::Duration;

use language::part_of_the;
use serde::{Deserialize, Serialize};

use super::{Breach, limit::LimitCounts};

/// How long the shortest windows last.
pub(super) const SHORTEST: Duration = Duration::from_mins(1);

/// Those that go on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Windows {
    /// How many [`SHORTEST`] of the stage are over.
    turn: u64,
    /// How many windows there have been.
    begun: u64,
    open: Vec<Window>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Window {
    /// The how manyth it is, from 1.
    number: u64,
    /// It lasts 2 to the power of this many [`SHORTEST`].
    power: u32,
    since: Duration,
    /// What was counted before it began, a limit each.
    before: Vec<LimitCounts>,
}

impl Windows {
    /// Asks of each window and limit whether it is broken by what was counted since: with the limit's index, the counts, the
    /// part of alpha that the window has, and when it began.
    pub fn look(
        &self,
        now: &[LimitCounts],
        elapsed: Duration,
        broken: impl Fn(usize, LimitCounts, f64, Duration) -> Option<Breach>,
    ) -> Option<Breach> {
        let broken_in = |window: &Window| {
            let part = part_of_the(window.number);
            let each = now.iter().zip(&window.before).enumerate();
            each.filter(|_| window.since < elapsed)
                .find_map(|(at, (now, before))| broken(at, now.since(*before), part, window.since))
        };
        self.open.iter().find_map(broken_in)
    }

    /// Ends the windows that are over, and begins those that are due.
    pub fn go_on(&mut self, now: &[LimitCounts], elapsed: Duration) {
        let turn = u64::try_from(elapsed.as_millis() / SHORTEST.as_millis()).unwrap_or(u64::MAX);
        if turn <= self.turn {
            return;
        }
        let before = std::mem::replace(&mut self.turn, turn);
        for power in 0..=turn.ilog2() {
            if turn >> power == before >> power {
                continue;
            }
            self.open.retain(|window| window.power != power);
            self.begun += 1;
            let (number, before) = (self.begun, now.to_vec());
            self.open.push(Window { number, power, since: elapsed, before });
        }
    }
}

impl LimitCounts {
    /// What began after `before`. Where times are kept less exactly than then, fewer may be known to be on the wrong side.
    /// Calls that went on then may end as they like: those that take long may all be on the wrong side.
    fn since(self, before: Self) -> Self {
        let begun = |of: Self| of.calls + of.pending;
        let calls = begun(self).saturating_sub(begun(before));
        let hits = self.hits.saturating_sub(before.hits).saturating_sub(before.pending);
        Self { calls, hits: hits.min(calls), pending: 0 }
    }
}
