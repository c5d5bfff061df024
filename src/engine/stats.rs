//! Numbers for whoever watches the manager: counted with relaxed atomics on the way.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::unreadable::Unreadable;

/// Upper bounds of the buckets of commit latency, in microseconds; one more bucket is for what is slower.
pub const COMMIT_BOUNDS_US: [u64; 12] =
    [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 250_000, 1_000_000, 5_000_000];

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Stats {
    pub polls: AtomicU64,
    /// Polls that needed the engine.
    pub polls_by_engine: AtomicU64,
    pub fetches: AtomicU64,
    pub results: AtomicU64,
    pub end_stages: AtomicU64,
    pub commits: AtomicU64,
    pub commands: AtomicU64,
    /// Commits that had to be tried again.
    pub commit_retries: AtomicU64,
    pub commit_us: AtomicU64,
    pub commit_buckets: [AtomicU64; COMMIT_BOUNDS_US.len() + 1],
    pub lost_results: AtomicU64,
    pub late_results: AtomicU64,
    /// Releases that were over and were read back whole.
    pub recalls: AtomicU64,
    pub unreadable: Unreadable,
}

impl Stats {
    #[inline]
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    pub(super) fn committed(&self, took: Duration) {
        let us = took.as_micros() as u64;
        Self::count(&self.commits);
        self.commit_us.fetch_add(us, Ordering::Relaxed);
        let bucket = COMMIT_BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(COMMIT_BOUNDS_US.len());
        Self::count(&self.commit_buckets[bucket]);
    }
}
