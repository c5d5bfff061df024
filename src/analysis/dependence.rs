//! Points of a time series know of each other: how many independent ones they are worth.
//!
//! A comparison of two series varies as its two sides do, each with its own autocorrelation. What moves both alike, such as
//! the load of the day, makes each side look as if it had few independent points, though a comparison within an interval
//! doesn't see it. Where both sides move together, dependence is therefore looked for in the ratio of points measured
//! at the same time (where some are negative in the difference): whatever both have in common cancels there, and the rest is
//! what the comparison sees.

use super::{dist::student_sf, order::places_in_order, spread::tied};

/// Fewer effective points on a side decide nothing.
pub const LEAST_EFFECTIVE_POINTS: f64 = 20.0;

/// Standard errors by which the autocorrelation of what is left of a common trend is taken to be higher than it was found: 95 %,
/// one-sided. A look counts as soon as there *seem* to be enough effective points, which is when the autocorrelation is
/// underestimated.
pub const UPPER_BOUND: f64 = 1.645;

/// Standard errors by which the correlation of both sides counts as a sign of something in common. There is little to lose by a
/// wrong sign, for the bound holds without a trend too, and much by a missed one.
const SIGN: f64 = 0.5;

/// Stretches of time whose means are compared: the longer they are, the less they know of each other.
const BATCHES: usize = 3;

/// Points whose mean is one point of a coarser series.
const BLOCK: usize = 5;

/// How a comparison of two series varies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dependence {
    /// Its variance, in units of that of independent points.
    pub factor: f64,
    /// Independent points that the side with fewer of them is worth.
    pub effective: f64,
}

/// Points of both sides in order of time, an interval each.
pub type Intervals<'a> = [(&'a [f64], &'a [f64])];

/// The values of baseline and canary that were measured at about the same time, of points `(ms, value)` in order of time. While
/// everything becomes slower, a side that was asked later seems to be slower: its points before the first or after the last of the other,
/// by more than half of their spacing, are left out.
pub fn at_the_same_time(baseline: &[(i64, f64)], canary: &[(i64, f64)]) -> [Vec<f64>; 2] {
    let sides = [baseline, canary];
    let ends = sides.map(|points| points.first().zip(points.last()).map(|(first, last)| [first.0, last.0]));
    let spacing = |points: &[(i64, f64)], [first, last]: [i64; 2]| {
        last.saturating_sub(first) / (points.len() as i64 - 1).max(1)
    };
    let common = match ends {
        [Some(one), Some(other)] => {
            let reach = spacing(baseline, one).max(spacing(canary, other)) / 2;
            let from = one[0].max(other[0]).saturating_sub(reach);
            // Of two single points nothing is known of their spacing.
            (reach > 0).then_some([from, one[1].min(other[1]).saturating_add(reach)])
        }
        _ => None,
    };
    let is_common = |at_ms: i64| common.is_none_or(|[from, to]| (from..=to).contains(&at_ms));
    sides.map(|points| points.iter().filter(|(at, _)| is_common(*at)).map(|(_, value)| *value).collect())
}

/// Of the comparison of both sides, which must not be empty. The apparent dependence of each side by itself holds unless
/// both move together and what they don't have in common depends less.
pub fn dependence(intervals: &Intervals<'_>) -> Dependence {
    let apart = apart(intervals);
    let (baseline, canary): (Vec<f64>, Vec<f64>) = intervals.iter().flat_map(|(b, c)| pairs(b, c)).unzip();
    let contrasts = centred_midranks(&contrasts(&baseline, &canary));
    let count = contrasts.len() as f64;
    let time = time_of_centred(&contrasts, UPPER_BOUND).max(time_of_blocks(&contrasts));
    let together = correlation(&centred_midranks(&baseline), &centred_midranks(&canary));
    if together <= SIGN * (time / count).sqrt() {
        return apart;
    }
    // A side with more points than pairs is worth no more than its pairs.
    let factor = time * 2.0 / count / independent(intervals);
    if factor < apart.factor { Dependence { factor, effective: count / time } } else { apart }
}

/// The probability of a mean of contrasts as far above 0, of canary less mapped baseline at the same time, where that mean is 0.
///
/// Where points are worth few independent ones nothing can be told from ranks, for these have an end: all of one side above all of the
/// other is as far as they go. The means of a few stretches of time have none; they are nearly independent, and are taken for normal
/// (Student's t, by batch means: Schmeiser 1982). `None`: too few points.
pub fn batch_means_p(intervals: &Intervals<'_>, contrast: impl Fn(f64, f64) -> f64) -> Option<f64> {
    let contrasts: Vec<f64> =
        intervals.iter().flat_map(|(b, c)| pairs(b, c)).map(|(b, c)| contrast(b, c)).collect();
    if (contrasts.len() as f64) < LEAST_EFFECTIVE_POINTS {
        return None;
    }
    let length = contrasts.len() / BATCHES;
    let mean_of = |batch: &[f64]| batch.iter().sum::<f64>() / length as f64;
    let means: Vec<f64> = contrasts.rchunks_exact(length).take(BATCHES).map(mean_of).collect();
    let batches = BATCHES as f64;
    let mean = means.iter().sum::<f64>() / batches;
    let variance = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (batches - 1.0);
    (variance > 0.0).then(|| student_sf(mean / (variance / batches).sqrt(), batches - 1.0))
}

/// From each side by itself.
fn apart(intervals: &Intervals<'_>) -> Dependence {
    let side = |side: Vec<&[f64]>| {
        let points = side.concat();
        autocorrelation_time(&points, 0.0) / points.len() as f64
    };
    let baseline = side(intervals.iter().map(|(baseline, _)| *baseline).collect());
    let canary = side(intervals.iter().map(|(_, canary)| *canary).collect());
    Dependence {
        factor: (baseline + canary) / independent(intervals),
        effective: (1.0 / baseline).min(1.0 / canary),
    }
}

/// The variance of the difference of two means of independent points, in units of theirs.
fn independent(intervals: &Intervals<'_>) -> f64 {
    let m: usize = intervals.iter().map(|(baseline, _)| baseline.len()).sum();
    let n: usize = intervals.iter().map(|(_, canary)| canary.len()).sum();
    1.0 / m as f64 + 1.0 / n as f64
}

/// Points of an interval that were measured at about the same time: of the side with more of them one for each of the
/// other, the one in the middle of its part of the time.
fn pairs<'a>(baseline: &'a [f64], canary: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let count = baseline.len().min(canary.len());
    let middle = move |side: &[f64], at: usize| side[(2 * at + 1) * side.len() / (2 * count)];
    (0..count).map(move |at| (middle(baseline, at), middle(canary, at)))
}

/// How far each point of the canary lies above that of the baseline: any increasing function of their ratio has its ranks, and
/// this one is finite at 0.
fn contrasts(baseline: &[f64], canary: &[f64]) -> Vec<f64> {
    let negative = baseline.iter().chain(canary).any(|point| *point < 0.0);
    let contrast = |(b, c): (&f64, &f64)| match (negative, b + c) {
        (true, _) => c - b,
        (false, sum) if sum > 0.0 => c / sum,
        _ => 0.5,
    };
    baseline.iter().zip(canary).map(contrast).collect()
}

/// Of centred ranks; 0 where one side doesn't vary.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let variance = products(a, a) * products(b, b);
    if variance > 0.0 { products(a, b) / variance.sqrt() } else { 0.0 }
}

/// The integrated autocorrelation time τ of the ranks of a series, at least 1: its mean varies as that of n/τ
/// independent values.
///
/// The larger of the initial positive sequence (Geyer 1992) and of an autoregression of order 1, bias-corrected
/// (Kendall 1954) and taken so many standard errors above what was found: the first sees any shape but little of it in a
/// short series, the second the other way round.
pub fn autocorrelation_time(series: &[f64], errors: f64) -> f64 {
    time_of_centred(&centred_midranks(series), errors)
}

fn time_of_centred(series: &[f64], errors: f64) -> f64 {
    let n = series.len() as f64;
    let variance = products(series, series);
    if series.len() < 4 || variance <= 0.0 {
        return 1.0;
    }
    let correlation = |lag: usize| products(series, &series[lag..]) / variance;
    let first = correlation(1);
    let error = errors * ((1.0 - first * first).max(0.0) / n).sqrt();
    let phi = (first + (1.0 + 3.0 * first.max(0.0)) / n + error).clamp(0.0, 1.0 - 1.0 / n);
    let autoregression = (1.0 + phi) / (1.0 - phi);
    autoregression.max(positive_sequence(series.len(), correlation)).max(1.0)
}

/// The same by means of blocks, which vary τ/block as much as points where blocks are independent, and are a series of their
/// own where they aren't: what is slow shows there, though noise from point to point hides it from neighbours.
fn time_of_blocks(series: &[f64]) -> f64 {
    let variance = products(series, series) / (series.len() as f64 - 1.0);
    let mut means: Vec<f64> =
        series.rchunks_exact(BLOCK).map(|block| block.iter().sum::<f64>() / BLOCK as f64).collect();
    if means.len() < 4 || variance <= 0.0 {
        return 1.0;
    }
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    for value in &mut means {
        *value -= mean;
    }
    let spread = products(&means, &means) / (count - 1.0);
    BLOCK as f64 * spread / variance * time_of_centred(&means, 0.0)
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

fn centred_midranks(series: &[f64]) -> Vec<f64> {
    let order = places_in_order(series);
    let mut ranks = vec![0.0; series.len()];
    let middle = (series.len() as f64 - 1.0) / 2.0;
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && tied(series[order[start]], series[order[end]]) {
            end += 1;
        }
        for &at in &order[start..end] {
            ranks[at] = (start + end - 1) as f64 / 2.0 - middle;
        }
        start = end;
    }
    ranks
}
