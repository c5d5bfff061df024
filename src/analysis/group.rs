//! Neighbouring intervals are merged by counts alone, until each side has enough values to be ranked.

use std::ops::Range;

use super::{
    data::{Sample, Stratum},
    spread::{Side, Step},
};

/// Least values of each side in what is ranked together.
pub const LEAST_SIDE: u64 = 5;

/// What makes a group complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Least values of both sides together.
    pub least_total: u64,
    /// Only values that aren't 0 count, and take part.
    pub zero_free: bool,
}

/// What is ranked together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub baseline: Side,
    pub canary: Side,
}

/// The next group of strata from `from` on, and whether it is complete. One that another stage or split cuts short is
/// complete as it is; `None` where there is nothing, or only something that may still grow.
pub fn next_group(strata: &[Stratum], from: usize, rule: Rule, end: bool) -> Option<Range<usize>> {
    let first = strata.get(from)?;
    let (mut baseline, mut canary) = (0, 0);
    let mut at = from;
    while at < strata.len() {
        if !alike(first, &strata[at]) {
            return Some(from..at);
        }
        let interval = interval_from(strata, at);
        for stratum in &strata[interval.clone()] {
            baseline += counted(&stratum.baseline, rule.zero_free);
            canary += counted(&stratum.canary, rule.zero_free);
        }
        at = interval.end;
        if baseline.min(canary) >= LEAST_SIDE && baseline + canary >= rule.least_total {
            return Some(from..at);
        }
    }
    end.then_some(from..strata.len())
}

/// The strata of one interval, stage and split: however many batches it came in, it is taken whole.
pub fn interval_from(strata: &[Stratum], from: usize) -> Range<usize> {
    let first = &strata[from];
    let same = |stratum: &&Stratum| stratum.interval == first.interval && alike(first, stratum);
    from..from + strata[from..].iter().take_while(same).count()
}

fn alike(a: &Stratum, b: &Stratum) -> bool {
    a.stage == b.stage
        && a.group.is_some() == b.group.is_some()
        && a.canary_share.map(f64::to_bits) == b.canary_share.map(f64::to_bits)
}

fn counted(sample: &Sample, zero_free: bool) -> u64 {
    match sample {
        Sample::Values(values) if zero_free => values.iter().filter(|value| **value != 0.0).count() as u64,
        Sample::Histogram(histogram) if zero_free => histogram.zero_free(),
        _ => sample.count(),
    }
}

impl Group {
    /// The strata of a group as one; `steps` are what values of baseline and canary are rounded to.
    pub fn of(strata: &[Stratum], rule: Rule, steps: &[Step; 2]) -> Self {
        let baseline = strata.iter().map(|stratum| &stratum.baseline);
        let canary = strata.iter().map(|stratum| &stratum.canary);
        Self {
            baseline: side(baseline, rule.zero_free, steps[0].size()),
            canary: side(canary, rule.zero_free, steps[1].size()),
        }
    }
}

/// Samples of one kind as one; `data::fault` has made sure that they are.
fn side<'a>(samples: impl Iterator<Item = &'a Sample>, zero_free: bool, step: Option<f64>) -> Side {
    let mut values = Vec::new();
    let mut merged: Option<super::Histogram> = None;
    for sample in samples {
        match sample {
            Sample::Values(more) if zero_free => values.extend(more.iter().filter(|v| **v != 0.0)),
            Sample::Values(more) => values.extend_from_slice(more),
            Sample::Histogram(more) => {
                let more = if zero_free { more.without_zeros() } else { more.clone() };
                match &mut merged {
                    None => merged = Some(more),
                    // Those that don't merge were refused before.
                    Some(merged) => drop(merged.merge(&more)),
                }
            }
            Sample::Counts(_) => {}
        }
    }
    match merged {
        Some(histogram) => Side::Cells(histogram.cells()),
        None => Side::of_values(values, step),
    }
}
