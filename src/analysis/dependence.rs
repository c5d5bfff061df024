//! Points of a time series know of each other: how many independent ones they are worth.

use super::{order::places_in_order, spread::tied};

/// Fewer effective points on a side decide nothing.
pub const LEAST_EFFECTIVE_POINTS: f64 = 20.0;

/// The integrated autocorrelation time τ of the ranks of a series, at least 1: its mean varies as that of n/τ
/// independent values.
///
/// The larger of the initial positive sequence (Geyer 1992) and of an autoregression of order 1, bias-corrected
/// (Kendall 1954): the first sees any shape but little of it in a short series, the second the other way round.
pub fn autocorrelation_time(series: &[f64]) -> f64 {
    let ranks = centred_midranks(series);
    let n = ranks.len() as f64;
    let variance: f64 = ranks.iter().map(|r| r * r).sum();
    if ranks.len() < 4 || variance <= 0.0 {
        return 1.0;
    }
    let correlation = |lag: usize| products(&ranks, &ranks[lag..]) / variance;
    let first = correlation(1);
    let phi = (first + (1.0 + 3.0 * first.max(0.0)) / n).clamp(0.0, 1.0 - 1.0 / n);
    let autoregression = (1.0 + phi) / (1.0 - phi);
    autoregression.max(positive_sequence(ranks.len(), correlation)).max(1.0)
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
