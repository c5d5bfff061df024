//! What was measured on this machine, until the manager has it.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use model::numbered::NumberedQueue;
use protocol::measurements::{self, MAX_SAMPLES, Measured, Sample};

use super::basics::{lock, now_ms};

/// Most samples that wait while the manager is out of reach.
const MAX_WAITING: usize = 10_000;

/// Samples in their order.
#[derive(Debug)]
pub struct Samples {
    run: u64,
    waiting: Mutex<NumberedQueue<Sample>>,
    has_lost: AtomicBool,
    /// It is to be measured how long functions take.
    measures: AtomicBool,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            run: fastrand::u64(..),
            waiting: Mutex::new(NumberedQueue::new(MAX_WAITING)),
            has_lost: AtomicBool::default(),
            measures: AtomicBool::default(),
        }
    }
}

impl Samples {
    /// Something was measured, at a time in milliseconds since 1970.
    pub(super) fn add(&self, at_ms: i64, what: Measured) {
        let has_lost = lock(&self.waiting).push(Sample { at_ms, what });
        if has_lost && !self.has_lost.swap(true, Ordering::Relaxed) {
            tracing::warn!("samples are lost: they come faster than the manager takes them");
        }
    }

    /// A function has had an event in hand for so long; how old that was before.
    pub(super) fn executed(&self, instance: &str, took: Duration, age_ms: u64) {
        if !self.measures.load(Ordering::Relaxed) {
            return;
        }
        let (at_ms, micros) = (now_ms(), u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.add(at_ms, Measured::Execution { instance: instance.to_owned(), micros });
        let micros = age_ms.saturating_mul(1_000);
        self.add(at_ms, Measured::Transfer { instance: instance.to_owned(), micros });
    }

    /// Whether it is measured from now on how long functions take with events.
    pub fn measure(&self, measures: bool) {
        self.measures.store(measures, Ordering::Relaxed);
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.waiting).is_empty()
    }

    /// Those that come next, as many as a call may have.
    #[must_use]
    pub fn next(&self) -> measurements::Samples {
        let (first, all) = lock(&self.waiting).first(MAX_SAMPLES);
        measurements::Samples { run: self.run, first, all }
    }

    /// The manager has these.
    pub fn told(&self, samples: &measurements::Samples) {
        lock(&self.waiting).taken(samples.next());
        self.has_lost.store(false, Ordering::Relaxed);
    }
}
