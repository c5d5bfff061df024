//! Metrics that are 0: mostly, so that they are judged by how often they aren't, or always.
//!
//! Where nothing but 0 was measured on either side, no share of the baseline tells how much worse the canary may be, and no
//! rank tells the two apart. Such a canary is safe if "more than a share of [`DEFAULT_FLOOR`] of its values aren't 0" is rejected:
//! n zeros are as improbable as (1 − floor)ⁿ then (Clopper and Pearson 1934). A look at which they are all 0 comes after looks at which they
//! were, so of all looks only the first that has enough of them can err, and none has to be paid for.

use super::{
    data::{Sample, Stratum},
    dependence::dependence,
    design::{DEFAULT_FLOOR, Design, Deviation, Question, Sampling, Tolerance},
    grid,
    rate::ln_below,
};

/// Nothing but zeros on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OnlyZeros {
    /// The share of values other than 0 that is allowed.
    pub floor: f64,
    /// The share that they are at most.
    pub at_most: f64,
    /// So many more values of both sides together would show it, all of them 0; 0: there are enough. `None`: no number would, for 0 is
    /// the worst value that there is, or it isn't known what the values are worth.
    pub more: Option<u64>,
}

impl OnlyZeros {
    /// What it comes to that all values, or all events, are 0. `None`: they aren't, or the tolerance is one that tells zeros
    /// from what is worse.
    pub fn of(design: &Design, strata: &[Stratum]) -> Option<Self> {
        if matches!(design.tolerance, Tolerance::Shift(_)) || !are_zero(strata) {
            return None;
        }
        let count = |side: fn(&Stratum) -> &Sample| strata.iter().map(|s| side(s).count()).sum::<u64>();
        let (baseline, canary) = (count(|s| &s.baseline), count(|s| &s.canary));
        if baseline == 0 || canary == 0 {
            return None;
        }
        let (floor, alpha) = match design.question {
            // One of two ways to be safe.
            Question::Rate { floor } if floor > 0.0 => (floor, 0.5 * design.planned_alpha()),
            Question::Rate { .. } | Question::Location | Question::Quantile(_) => {
                (DEFAULT_FLOOR, design.planned_alpha())
            }
        };
        let count = match (design.deviation, design.sampling) {
            (_, Sampling::Series) => independent_points(strata),
            (Deviation::High, Sampling::Calls) => canary,
            // That the canary isn't lower takes as many zeros of the baseline.
            (Deviation::Low | Deviation::Either, Sampling::Calls) => canary.min(baseline),
        };
        let needed = needed(design, floor, alpha);
        let is_known = !strata.iter().any(|stratum| stratum.assignment.is_sticky());
        // As many more of that side, at the split there is.
        let more = (needed - count as f64).max(0.0) * (baseline + canary) as f64 / count.max(1) as f64;
        Some(Self {
            floor,
            at_most: -((alpha.ln() / count.max(1) as f64).exp_m1()),
            more: (is_known && design.deviation != Deviation::Low).then_some(more.ceil() as u64),
        })
    }

    pub fn are_enough(&self) -> bool {
        self.more == Some(0)
    }
}

/// So many zeros reject that a share of `floor` of the values are none.
fn needed(design: &Design, floor: f64, alpha: f64) -> f64 {
    let planned = (alpha.ln() / (-floor).ln_1p()).ceil();
    if !matches!(design.question, Question::Rate { floor } if floor > 0.0) || design.reserve <= 0.0 {
        return planned;
    }
    // A floor of its own is judged by the extension with what was kept for it.
    let least = -(0.5 * design.reserve * design.alpha).ln();
    let mut calls = planned as u64;
    while ln_below(0, calls, floor) < least {
        calls += calls / 64 + 1;
    }
    calls as f64
}

/// Independent points that the side with fewer of them is worth. Zeros don't show how they depend on each other.
fn independent_points(strata: &[Stratum]) -> u64 {
    fn points(sample: &Sample) -> &[f64] {
        if let Sample::Values(values) = sample { values } else { &[] }
    }
    let intervals: Vec<_> = strata.iter().map(|s| (points(&s.baseline), points(&s.canary))).collect();
    dependence(&intervals).effective as u64
}

/// Whether nothing but 0 was measured. Times aren't 0: a clock is too coarse for them.
pub(super) fn are_zero(strata: &[Stratum]) -> bool {
    strata.iter().flat_map(|s| [&s.baseline, &s.canary]).all(|sample| match sample {
        Sample::Values(values) => values.iter().all(|value| *value == 0.0),
        Sample::Counts(counts) => counts.events == 0,
        Sample::Histogram(_) | Sample::Measured(_) => sample.count() == 0,
    })
}

/// Whether most values are 0.
pub(super) fn is_mostly_zero(strata: &[Stratum]) -> bool {
    let all: u64 = samples(strata).map(Sample::count).sum();
    2 * samples(strata).map(zeros).sum::<u64>() > all
}

pub(super) fn has_zeros(strata: &[Stratum]) -> bool {
    samples(strata).any(|sample| zeros(sample) > 0)
}

fn samples(strata: &[Stratum]) -> impl Iterator<Item = &Sample> {
    strata.iter().flat_map(|stratum| [&stratum.baseline, &stratum.canary])
}

fn zeros(sample: &Sample) -> u64 {
    match sample {
        Sample::Values(values) => values.iter().filter(|v| **v == 0.0).count() as u64,
        Sample::Histogram(histogram) => histogram.count() - histogram.zero_free(),
        // To a clock with a step 0 is what takes less than a part of it, and no different from what takes as long.
        Sample::Measured(values) if grid::clock(values).step == Some(0.0) => values.zeros(),
        Sample::Measured(_) | Sample::Counts(_) => 0,
    }
}
