//! The manager's time, as a child knows it.
//!
//! Each answer that tells the time gives an offset from the child's monotonic clock, off by half the round trip at most: the
//! manager may have looked at its clock right at the beginning or at the end of it. The median of the last five counts, so
//! that a few slow answers move nothing.

use std::collections::VecDeque;

/// Answers that count.
const SAMPLES: usize = 5;

/// The part of an interval up to which a child's time may be off, in hundredths.
const TOLERABLE_PERCENT: u64 = 20;

/// What is known of the manager's time. Times are in milliseconds; those of the child are of a clock that never jumps.
#[derive(Debug, Clone, Default)]
pub struct ManagerClock {
    samples: VecDeque<ClockSample>,
}

#[derive(Debug, Clone, Copy)]
struct ClockSample {
    offset_ms: i64,
    error_ms: u64,
}

/// A time of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManagerInstant {
    /// Since 1970.
    pub ms: i64,
    /// By how much it may be off.
    pub error_ms: u64,
}

impl ManagerClock {
    /// An answer that told the time: when the question was sent and the answer came, what it told, and by how much that may be
    /// off.
    pub fn heard(&mut self, sent_ms: u64, came_ms: u64, told_ms: i64, told_error_ms: u64) {
        let round_trip = came_ms.saturating_sub(sent_ms);
        let middle = i64::try_from(sent_ms + round_trip / 2).unwrap_or(i64::MAX);
        let error_ms = told_error_ms.saturating_add(round_trip.div_ceil(2));
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(ClockSample { offset_ms: told_ms.saturating_sub(middle), error_ms });
    }

    /// The manager's time where the child's clock shows `own_ms`; `None`: it was never told.
    pub fn at(&self, own_ms: u64) -> Option<ManagerInstant> {
        let mut samples: Vec<ClockSample> = self.samples.iter().copied().collect();
        samples.sort_by_key(|sample| sample.offset_ms);
        let median = samples.get(samples.len().checked_sub(1)? / 2)?;
        let own = i64::try_from(own_ms).unwrap_or(i64::MAX);
        Some(ManagerInstant { ms: own.saturating_add(median.offset_ms), error_ms: median.error_ms })
    }
}

impl ManagerInstant {
    /// The number of the interval of this length that it lies in, never 0; 0 where the time is known too badly for it: what a
    /// child measures then belongs to no interval.
    pub fn interval(self, length_ms: u64) -> u32 {
        if self.error_ms.saturating_mul(100) > length_ms.saturating_mul(TOLERABLE_PERCENT) {
            return 0;
        }
        let number = u64::try_from(self.ms).unwrap_or(0) / length_ms.max(1);
        (number % u64::from(u32::MAX)) as u32 + 1
    }

    /// Milliseconds until the next interval of this length begins; never 0.
    pub fn until_next(self, length_ms: u64) -> u64 {
        let length = length_ms.max(1);
        length - u64::try_from(self.ms).unwrap_or(0) % length
    }
}
