//! Classes of how fast children were before a release, in which what they measure now is ranked apart.
//!
//! Children differ in speed, and where calls of all are ranked together that drowns the difference between the versions.
//! What is known of a child from before the release takes most of it out: by regression (CUPED: Deng, Xu, Kohavi and Walker
//! 2013) or, which reduces the variance as much and suits ranks, by stratification. A class was known before any call was
//! shared out, so calls within it are as exchangeable as all of them: a history that says nothing costs a little, and never
//! misleads. A class made of what came out would compare selected calls.

use super::{data::Sample, interval_merging::LEAST_SIDE};

/// So many classes there are at most, from 0 on.
pub const MAX_CLASSES: u8 = 16;

/// Classes an octave: children of one class differ by a fifth at most, or by a factor of 16, after which classes begin anew.
const PER_OCTAVE: f64 = 4.0;

/// Between looks a class waits until it has this share more than was ranked of it: so strata grow with the logarithm of the
/// calls, and not with the number of looks times that of classes.
const LEAST_MORE: f64 = 0.05;

/// The class of a child whose calls took so long, in milliseconds. `None`: that is no time.
pub fn class_of(ms: f64) -> Option<u8> {
    let at = (ms.log2() * PER_OCTAVE).floor();
    // Below 16 after the division.
    (ms > 0.0 && at.is_finite()).then(|| at.rem_euclid(f64::from(MAX_CLASSES)) as u8)
}

/// Whether what came of a class since the last look is worth to be ranked apart, by counts alone. `ranked`: values of it
/// that were.
pub fn is_worth_ranking(baseline: &Sample, canary: &Sample, ranked: u64) -> bool {
    let (m, n) = (baseline.count(), canary.count());
    m.min(n) >= LEAST_SIDE && (m + n) as f64 >= LEAST_MORE * ranked as f64
}
