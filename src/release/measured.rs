//! Strata of a stage as they are judged.

use std::fmt::Write as _;

use super::strata::{Key, Sides, Strata};
use crate::{
    analysis::{Sample, Stratum},
    strategy::{Stage, analysis::ChildMetric},
};

/// One for each of what children told apart of a stage, all at interval 0. What they don't know of both versions is left out.
pub fn judged(stage: &Stage, strata: &Strata, of: ChildMetric) -> Vec<Stratum> {
    strata.iter().filter_map(|(key, sides)| stratum(stage, *key, sides, of)).collect()
}

/// Both versions side by side, where both measured what is meant.
pub fn stratum(stage: &Stage, key: Key, sides: &Sides, of: ChildMetric) -> Option<Stratum> {
    let [baseline, canary] = match of {
        ChildMetric::ErrorRate => sides.counts?.map(Sample::Counts),
        ChildMetric::ResponseTime => sides.times.clone()?.map(Sample::Measured),
    };
    let mut name = stage.name.clone();
    if key.split != stage.new_traffic {
        let _ = write!(name, ", split {} %", key.split);
    }
    let share = f64::from(key.split) / 100.0;
    let found = Stratum::new(name, 0, baseline, canary);
    // Times are of successful calls: how calls were shared out is told by those who count all of them.
    Some(match sides.counts.filter(|_| share > 0.0 && share < 1.0) {
        Some(counts) => found.ordered(share).called(counts.map(|side| side.calls)),
        None => found,
    })
}
