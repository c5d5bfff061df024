//! When children report a stage that goes on, as a value.

use serde::{Deserialize, Serialize};

/// Intervals into which the time of an analysis is cut at most: a report has a stratum for each.
pub const MAX_CUTS: u64 = 32;

/// The longest interval of a report that nobody compares, in milliseconds: as long as any stage may last.
const UNCUT_MS: u64 = 366 * 24 * 3_600 * 1_000;

/// When a child reports a stage that goes on, and how it cuts what it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interim {
    /// Between two reports, in milliseconds.
    pub every_ms: u64,
    /// How long the intervals are in which calls are counted apart, in milliseconds: a multiple of the other.
    pub cut_ms: u64,
}

impl Interim {
    /// For people who wait, where no analysis looks: what is measured isn't cut.
    pub const FOR_PEOPLE: Self = Self { every_ms: 5_000, cut_ms: UNCUT_MS };
}
