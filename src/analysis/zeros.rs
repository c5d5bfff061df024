//! Whether a metric is mostly 0, and is judged by how often it is not.

use super::{
    data::{Sample, Stratum},
    grid,
};

/// Whether most of the values on both sides are 0.
pub(super) fn is_mostly_zero(strata: &[Stratum]) -> bool {
    let (mut all, mut zeros) = (0, 0);
    for sample in strata.iter().flat_map(|s| [&s.baseline, &s.canary]) {
        all += sample.count();
        zeros += match sample {
            Sample::Values(values) => values.iter().filter(|v| **v == 0.0).count() as u64,
            Sample::Histogram(histogram) => histogram.count() - histogram.zero_free(),
            // To a clock with a step 0 is what takes less than a part of it, and no different from what takes as long.
            Sample::Measured(values) if grid::clock(values).step == Some(0.0) => values.zeros(),
            Sample::Measured(_) | Sample::Counts(_) => 0,
        };
    }
    2 * zeros > all
}
