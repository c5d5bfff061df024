//! When what failed is tried again.

use std::{collections::BTreeMap, ops::Range};

use super::act::Act;

/// Pauses between tries, in milliseconds: the first, and the longest.
const FIRST_MS: u64 = 200;
const LONGEST_MS: u64 = 30_000;

/// The pause before it is looked again, in milliseconds, whether that has come which an act waits for.
const WAIT_MS: u64 = 1_000;

/// A pause is shortened or lengthened by chance, in hundredths, so that agents that lost their manager together don't come back together.
const JITTER: Range<u64> = 75..126;

/// Failures of acts that are tried again, and pauses after others.
#[derive(Debug)]
pub struct Tries {
    random: fastrand::Rng,
    tries: BTreeMap<Act, Try>,
}

#[derive(Debug, Clone, Copy)]
struct Try {
    failures: u32,
    not_before_ms: u64,
}

impl Tries {
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), tries: BTreeMap::new() }
    }

    /// It failed: it is tried again after a pause that grows.
    pub fn failed(&mut self, act: Act, now_ms: u64) {
        let failures = self.tries.get(&act).map_or(0, |tried| tried.failures).saturating_add(1);
        let pause = FIRST_MS.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_MS);
        let pause = pause * self.random.u64(JITTER) / 100;
        self.tries.insert(act, Try { failures, not_before_ms: now_ms + pause });
    }

    /// It waits for something elsewhere: it is tried again after a pause that doesn't grow.
    pub fn waits(&mut self, act: Act, now_ms: u64) {
        self.tries.insert(act, Try { failures: 1, not_before_ms: now_ms + WAIT_MS });
    }

    /// Another act takes the place of one that failed, with all its failures: it is tried after the same pause.
    pub fn go_on_as(&mut self, act: &Act, next: Act, now_ms: u64) {
        let tried = self.tries.remove(act).unwrap_or(Try { failures: 1, not_before_ms: now_ms + FIRST_MS });
        self.tries.insert(next, tried);
    }

    /// It went well.
    pub fn went_well(&mut self, act: &Act) {
        self.tries.remove(act);
    }

    /// It is not done again before then.
    pub fn pause(&mut self, act: Act, until_ms: u64) {
        self.tries.insert(act, Try { failures: 0, not_before_ms: until_ms });
    }

    pub fn may(&self, act: &Act, now_ms: u64) -> bool {
        self.tries.get(act).is_none_or(|tried| tried.not_before_ms <= now_ms)
    }

    /// Before when it is not done again.
    pub fn not_before_ms(&self, act: &Act) -> Option<u64> {
        self.tries.get(act).map(|tried| tried.not_before_ms)
    }

    pub fn failures(&self, act: &Act) -> u32 {
        self.tries.get(act).map_or(0, |tried| tried.failures)
    }

    /// The first moment after `now_ms` at which something may be tried again.
    pub fn next_ms(&self, now_ms: u64) -> Option<u64> {
        self.tries.values().map(|tried| tried.not_before_ms).filter(|at| *at > now_ms).min()
    }

    /// Forgets what is neither wanted nor pausing any more.
    pub fn forget(&mut self, keep: impl Fn(&Act) -> bool) {
        self.tries.retain(|act, _| keep(act));
    }
}
