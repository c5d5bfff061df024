//! Whether calls were shared out as the table in force says.
//!
//! What is comparable: calls of closed intervals that the table gave out by a key or by chance, however they ended; none that a header
//! asked for. They are held against the shares of the table that was in force, which says where targets are away. Intervals of which too
//! many lines were lost are in no reading, and so judged by nobody.
//!
//! Users, and not calls, are drawn where calls have keys: these are noted by group ([`analysis::mismatch`] says what that is for).
//!
//! What hasn't ended isn't counted, and a variation that takes longer has more of that. Who says what goes on is believed; of a router
//! that doesn't, it is taken to be what comes in as long as the longest call of the variation took, or a call that timed out may take.

use analysis::mismatch::{Mismatch, SharedOut};
use call_metrics::{Interval, Tally, Times};
use serde::{Deserialize, Serialize};
use traffic::Failure;

use super::{StageCounts, side::Sides};

/// How long a router may wait for a call that times out, in milliseconds.
const LONGEST_WAIT_MS: u64 = 60_000;

/// So much more than on average may come in at a time.
const BURST: f64 = 1.5;

/// Calls may also be this many more: few of them come in bursts.
const FEW: u64 = 3;

/// The share that a variation without any may have by calls that are given out while tables change, in units of 0.01 %: clocks of
/// routers are coarse.
const STRAY: u16 = 1;

/// Calls as they were shared out during a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Shares {
    shared: SharedOut,
    /// Calls of users that are in no group, for the variation had not to answer them: of each variation.
    ungrouped: Vec<u64>,
    /// The longest call of each variation, in milliseconds.
    longest_ms: Vec<u64>,
}

impl Shares {
    /// Takes in a closed interval.
    pub fn note(&mut self, interval: &Interval, service: &str, split: &str, names: &[String]) {
        let mut by_shares: Vec<(&[u16], Vec<&Tally>)> = Vec::new();
        let nothing = Tally::default();
        for row in &interval.rows {
            let key = &row.key;
            let is_drawn = !key.by_header && key.service == service && key.split == split;
            if !is_drawn || key.shares.len() != names.len() {
                continue;
            }
            let Some(which) = names.iter().position(|name| *name == key.variation) else { continue };
            self.note_longest(which, names.len(), &row.tally);
            let at = by_shares.iter().position(|(shares, _)| **shares == *key.shares).unwrap_or_else(|| {
                by_shares.push((&key.shares, vec![&nothing; names.len()]));
                by_shares.len() - 1
            });
            // A version that was started anew in between has a row of its own: its calls are noted by themselves.
            if by_shares[at].1[which].calls == 0 {
                by_shares[at].1[which] = &row.tally;
            } else {
                let mut alone = vec![&nothing; names.len()];
                alone[which] = &row.tally;
                self.note_calls(&key.shares, &alone);
            }
        }
        for (shares, tallies) in by_shares {
            self.note_calls(shares, &tallies);
        }
    }

    fn note_calls(&mut self, shares: &[u16], tallies: &[&Tally]) {
        let wanted = allowing_strays(shares);
        let has_groups = tallies.iter().any(|tally| tally.groups.is_some());
        if !has_groups {
            let calls: Vec<u64> = tallies.iter().map(|tally| tally.calls).collect();
            return self.shared.note(&wanted, None, &calls);
        }
        self.ungrouped.resize(tallies.len(), 0);
        for (which, tally) in tallies.iter().enumerate() {
            let grouped: u64 = tally.groups.iter().flat_map(|groups| groups.calls).sum();
            self.ungrouped[which] += tally.calls.saturating_sub(grouped);
        }
        for group in 0..traffic::GROUPS {
            let in_group =
                |tally: &&Tally| tally.groups.as_ref().map_or(0, |all| all.calls[usize::from(group)]);
            let calls: Vec<u64> = tallies.iter().map(in_group).collect();
            self.shared.note(&wanted, Some(group), &calls);
        }
    }

    fn note_longest(&mut self, which: usize, variations: usize, tally: &Tally) {
        self.longest_ms.resize(variations, 0);
        let times = [&tally.times, &tally.client_error_times];
        let longest_us = times.into_iter().filter_map(Times::range_us).map(|[_, most]| most).max();
        let timed_out = tally.failed[Failure::TimedOut as usize] > 0;
        let longest_ms = longest_us.map_or(0, |us| u64::from(us).div_ceil(1_000));
        let longest_ms = if timed_out { longest_ms.max(LONGEST_WAIT_MS) } else { longest_ms };
        self.longest_ms[which] = self.longest_ms[which].max(longest_ms);
    }

    /// Calls of each variation that may have been given out and have not ended, after so many milliseconds.
    fn pending(&self, elapsed_ms: u64, variations: usize) -> Vec<u64> {
        let mut all: u64 = 0;
        let mut wanted = vec![0.0_f64; variations];
        let mut had = vec![0_u64; variations];
        for shared in self.shared.all() {
            let calls: u64 = shared.calls.iter().sum();
            all += calls;
            for (which, (share, of)) in shared.wanted.iter().zip(&shared.calls).enumerate() {
                wanted[which] += calls as f64 * f64::from(*share) / f64::from(traffic::BUCKETS);
                had[which] += of;
            }
        }
        let pending = |which: usize| {
            let longest = self.longest_ms.get(which).copied().unwrap_or_default();
            // Of one that has answered nothing nobody knows how long it takes.
            let longest_ms = if had[which] == 0 { longest.max(LONGEST_WAIT_MS) } else { longest };
            let part = (longest_ms as f64 / elapsed_ms.max(1) as f64).min(1.0);
            ((wanted[which] * part * BURST).ceil() as u64).saturating_add(FEW).min(all)
        };
        (0..variations).map(pending).collect()
    }
}

impl StageCounts {
    /// Whether calls are told apart by their users.
    #[must_use]
    pub fn knows_users(&self) -> bool {
        self.shares.shared.all().iter().any(|shared| !shared.groups.is_empty())
    }

    /// What the split is instead of what it should be, if it isn't. `alpha`: that of the judgements of this agent in this stage, of
    /// which this has a small part beside; `elapsed_ms`: how long the shares have been in force. Where it isn't said what goes on
    /// (`tells_in_flight`), that is taken to be much.
    #[must_use]
    pub fn mismatch(&self, alpha: f64, elapsed_ms: u64, tells_in_flight: bool) -> Option<Mismatch> {
        let variations = self.names.len();
        let mut missing = if tells_in_flight {
            let open = |which: usize| -> u64 {
                let ended = |sides: &Sides| sides.of(which).calls + sides.of(which).passed_over;
                self.open.iter().map(|open| ended(&open.sides)).sum()
            };
            (0..variations).map(|which| open(which) + self.in_flight_of(which)).collect()
        } else {
            self.shares.pending(elapsed_ms, variations)
        };
        for (missing, ungrouped) in missing.iter_mut().zip(&self.shares.ungrouped) {
            *missing += ungrouped;
        }
        self.shares.shared.mismatch_but_for(alpha, &missing)
    }
}

/// The same shares, with a little for those that have none.
fn allowing_strays(shares: &[u16]) -> Vec<u16> {
    let mut wanted = shares.to_vec();
    let Some(largest) = (0..wanted.len()).max_by_key(|at| wanted[*at]) else { return wanted };
    for at in 0..wanted.len() {
        if wanted[at] == 0 && wanted[largest] > STRAY {
            wanted[at] = STRAY;
            wanted[largest] -= STRAY;
        }
    }
    wanted
}
