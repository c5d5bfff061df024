//! The range in which what children report must lie, looked at while they still measure.
//!
//! Whether a metric lies within it is measured once, over everything, when all have reported. Before that it fails if what came
//! so far lies outside by more than chance explains, however often it is looked at: one stray error of few calls ends nothing.
//! Of calls that depend on each other it isn't known what chance explains: they are measured at the end alone.

use super::interim::Merged;
use analysis::{
    Counts, Sample, Verdict,
    limit_evidence::{LEVEL, Limit, is_beyond},
};
use domain::release::analysis::Metered;
use language::{
    Strategy,
    analysis::{ChildMetric, Metric, Rule},
};

/// Which quantile of times is meant where none is named.
const MEDIAN: f64 = 0.5;

/// A look at what children have reported so far. It passes nothing.
pub(super) fn so_far(
    merged: &Merged,
    of: ChildMetric,
    metric: &Metric,
    strategy: &Strategy,
    mut found: Metered,
) -> Metered {
    let Rule::Threshold { min, max, quantile } = metric.rule else { return found };
    let Some(sample) = merged.new_version(of, strategy).filter(|_| merged.is_interim) else { return found };
    let quantile = quantile.unwrap_or(MEDIAN);
    let Some(value) = value(&sample, quantile) else { return found };
    let limits = [
        min.map(|min| (Limit::AtLeast(min), "below", min)),
        max.map(|max| (Limit::AtMost(max), "above", max)),
    ];
    let outside = limits.into_iter().flatten().find(|(limit, ..)| is_beyond(&sample, quantile, *limit));
    found.errors = 0;
    let so_far = format!("{value} over {} calls so far", sample.count());
    match outside {
        Some((_, which, bound)) => {
            (found.measured, found.outside) = (found.measured + 1, found.outside + 1);
            found.sentence =
                format!("{so_far} is {which} {bound}, by more than chance explains (p < {LEVEL})");
            found.verdict = Some(Verdict::Fail);
        }
        None => found.sentence = so_far,
    }
    found
}

fn value(sample: &Sample, quantile: f64) -> Option<f64> {
    match sample {
        Sample::Counts(Counts { calls, events }) => (*calls > 0).then(|| *events as f64 / *calls as f64),
        Sample::Measured(values) => values.quantile(quantile),
        Sample::Values(_) | Sample::Histogram(_) => None,
    }
}
