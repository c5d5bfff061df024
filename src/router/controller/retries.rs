//! When what failed is tried again.

use std::ops::Range;

/// A pause is shortened or lengthened by chance, in hundredths, so that routers that failed together aren't asked together.
const JITTER: Range<u64> = 75..126;

/// How often something failed without a break.
#[derive(Debug)]
pub struct Tries {
    random: fastrand::Rng,
    failures: u32,
    not_before_ms: Option<u64>,
}

impl Tries {
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), failures: 0, not_before_ms: None }
    }

    /// It failed: it is tried again after a pause, which is `first_ms` at first and `longest_ms` in the end.
    pub fn failed(&mut self, now_ms: u64, first_ms: u64, longest_ms: u64) -> u64 {
        let pause = first_ms.saturating_mul(1 << self.failures.min(16)).min(longest_ms);
        let at = now_ms + pause * self.random.u64(JITTER) / 100;
        self.failures = self.failures.saturating_add(1);
        self.not_before_ms = Some(at);
        at
    }

    pub fn went_well(&mut self) {
        (self.failures, self.not_before_ms) = (0, None);
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }

    pub fn not_before_ms(&self) -> Option<u64> {
        self.not_before_ms
    }
}
