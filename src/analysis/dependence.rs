//! Points of a time series know of each other: how much more their rank sum varies than that of independent ones.
//!
//! What moves both versions alike, such as the load of the day, moves their points alike, and a comparison within an interval
//! doesn't see it. Dependence is therefore looked for in what a comparison does see: the *influence* of each moment, which is
//! how far the canary's point lies above the baseline's at that time, each measured by its place among the other's points of
//! the same group (the placements of Brunner and Munzel 2000). A common trend cancels in it. Its mean over a group is the
//! group's statistic, and its long-run variance the variance of that.

use super::{order::places_in_order, rank::Map, spread::tied};

/// Fewer effective points decide nothing.
pub const LEAST_EFFECTIVE_POINTS: f64 = 20.0;

/// Standard errors by which the autocorrelation is taken to be higher than it was found: an upper bound of 95 %. At the first
/// looks there are few points, and what they hide of it would be a false alarm.
const UPPER_BOUND: f64 = 1.645;

/// What both sides measured in one group, in order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moments {
    pub baseline: Vec<f64>,
    pub canary: Vec<f64>,
}

/// Which statistic the moments add up to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// Ranks, each group weighted with 1/(N + 1).
    Rank,
    /// Values beyond the pooled quantile `q`.
    Tail { q: f64 },
}

/// How a statistic over all groups varies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dependence {
    /// Its variance, in the statistic's unit.
    pub variance: f64,
    /// Independent moments that all of them are worth.
    pub effective: f64,
}

/// The variance of a statistic over groups whose moments depend on each other. `map` is what is done to the baseline before it
/// is compared. `None`: some side of all groups is empty.
pub fn dependence(groups: &[Moments], statistic: Statistic, map: Map) -> Option<Dependence> {
    let mut influences = Vec::new();
    let mut scale = 0.0;
    for group in groups {
        let (m, n) = (group.baseline.len() as f64, group.canary.len() as f64);
        let moments = influence(group, statistic, map);
        if moments.is_empty() {
            continue;
        }
        let weight = match statistic {
            Statistic::Rank => m * n / (m + n + 1.0),
            Statistic::Tail { .. } => m * n / (m + n),
        };
        scale += weight * weight / moments.len() as f64;
        influences.extend(moments);
    }
    let count = influences.len() as f64;
    if influences.len() < 2 {
        return (!influences.is_empty()).then_some(Dependence { variance: 0.0, effective: count });
    }
    let mean = influences.iter().sum::<f64>() / count;
    for influence in &mut influences {
        *influence -= mean;
    }
    let spread = influences.iter().map(|i| i * i).sum::<f64>() / (count - 1.0);
    let time = autocorrelation_time(&influences);
    Some(Dependence { variance: scale * spread * time, effective: count / time })
}

/// The influence of each moment of a group; the mean of them is what the group adds to the statistic, but for its weight.
/// Where one side has more points than the other, those that fall into the same part of the time are one.
fn influence(group: &Moments, statistic: Statistic, map: Map) -> Vec<f64> {
    let baseline: Vec<f64> = group.baseline.iter().map(|value| map.of(*value)).collect();
    let canary = &group.canary;
    let length = baseline.len().min(canary.len());
    if length == 0 {
        return Vec::new();
    }
    let (mut up, mut down) = match statistic {
        Statistic::Rank => (placements(canary, &baseline), placements(&baseline, canary)),
        Statistic::Tail { q } => beyond(canary, &baseline, q),
    };
    let part = |side: &[f64], at: usize| {
        let range = at * side.len() / length..(at + 1) * side.len() / length;
        side[range.clone()].iter().sum::<f64>() / range.len() as f64
    };
    if statistic == Statistic::Rank {
        // Both sides see the group's difference, each in full: half of it is the other's.
        let half = |side: &[f64]| 0.5 * side.iter().sum::<f64>() / side.len() as f64;
        let (above, below) = (half(&up), half(&down));
        for (side, half) in [(&mut up, above), (&mut down, below)] {
            for place in side {
                *place -= half;
            }
        }
    }
    (0..length).map(|at| part(&up, at) - part(&down, at)).collect()
}

/// The share of `others` that lies below each value, ties by half, from −½ to ½.
fn placements(values: &[f64], others: &[f64]) -> Vec<f64> {
    let sorted = super::order::sorted(others.to_vec());
    let mut places = vec![0.0; values.len()];
    let (mut below, mut through) = (0, 0);
    for at in places_in_order(values) {
        let value = values[at];
        while below < sorted.len() && sorted[below] < value && !tied(sorted[below], value) {
            below += 1;
        }
        through = through.max(below);
        while through < sorted.len() && (sorted[through] < value || tied(sorted[through], value)) {
            through += 1;
        }
        places[at] = (below + through) as f64 / (2 * sorted.len()) as f64 - 0.5;
    }
    places
}

/// 1 for each value beyond the quantile of both sides together, as the statistic counts them, else 0.
fn beyond(canary: &[f64], baseline: &[f64], q: f64) -> (Vec<f64>, Vec<f64>) {
    let all = super::order::sorted([canary, baseline].concat());
    let room = ((1.0 - q) * all.len() as f64 + 1e-6) as usize;
    // Values that are tied with one below are below.
    let edge = all.len().checked_sub(room + 1).map_or(f64::NEG_INFINITY, |last| all[last]);
    let count = |side: &[f64]| {
        let is_beyond = |value: &f64| f64::from(*value > edge && !tied(*value, edge));
        side.iter().map(is_beyond).collect()
    };
    (count(canary), count(baseline))
}

/// The integrated autocorrelation time τ of a series of mean 0, at least 1: its mean varies as that of n/τ independent
/// values.
///
/// The larger of the initial positive sequence (Geyer 1992) and of an autoregression of order 1, bias-corrected
/// (Kendall 1954) and taken at its upper bound: the first sees any shape but little of it in a short series, the second the
/// other way round.
fn autocorrelation_time(series: &[f64]) -> f64 {
    let n = series.len() as f64;
    let variance: f64 = series.iter().map(|value| value * value).sum();
    if series.len() < 4 || variance <= 0.0 {
        return 1.0;
    }
    let correlation = |lag: usize| products(series, &series[lag..]) / variance;
    let first = correlation(1);
    let error = UPPER_BOUND * ((1.0 - first * first).max(0.0) / n).sqrt();
    let phi = (first + (1.0 + 3.0 * first.max(0.0)) / n + error).clamp(0.0, 1.0 - 1.0 / n);
    let autoregression = (1.0 + phi) / (1.0 - phi);
    autoregression.max(positive_sequence(series.len(), correlation)).max(1.0)
}

/// Σ of products, several at a time.
fn products(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let length = a.len().min(b.len());
    let (a, b) = (a[..length].chunks_exact(LANES), b[..length].chunks_exact(LANES));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; LANES];
    for (a, b) in a.zip(b) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += a[lane] * b[lane];
        }
    }
    rest + sums.iter().sum::<f64>()
}

/// −1 + 2 Σ of neighbouring pairs of correlations, as long as they are positive; each is corrected for the mean that
/// was taken from the same series.
fn positive_sequence(length: usize, correlation: impl Fn(usize) -> f64) -> f64 {
    let n = length as f64;
    let mut tau = -1.0;
    let mut least = f64::INFINITY;
    for lag in (0..length / 2).step_by(2) {
        let pair = correlation(lag) + correlation(lag + 1);
        if pair <= 0.0 {
            break;
        }
        // Monotone, as the true sums of pairs are.
        least = least.min(pair);
        tau += 2.0 * least;
    }
    // A sample's autocorrelations sum to −½: the mean takes about τ/n of each away.
    tau / (1.0 - (tau.max(1.0) / n).min(0.5))
}
