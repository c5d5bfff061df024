//! Does a quantile, or the rate of an event, lie beyond a limit? Evidence that may be asked for at every look.
//!
//! A quantile q of times lies above a limit if more than a share 1 − q of the calls takes longer than it: so both are
//! questions of how many of n calls, k, are hits, and whether their true share lies beyond p. The evidence against "it doesn't"
//! is a ratio of likelihoods, with the share under the alternative drawn uniformly from what lies beyond:
//!
//! E = ∫ₚ¹ tᵏ (1 − t)ⁿ⁻ᵏ dt / ((1 − p) pᵏ (1 − p)ⁿ⁻ᵏ) = B(k + 1, n − k + 1) P(Bin(n + 1, p) ≤ k) / ((1 − p) pᵏ (1 − p)ⁿ⁻ᵏ).
//!
//! At a share of p it is a martingale in the calls, and below p it falls: so it ever exceeds 1/level with probability `level`
//! at most, however often it is asked (Ville 1939; Robbins 1970 for mixtures).

use super::{
    data::{Counts, Sample},
    dist::binomial_cdf,
    values::Values,
};

/// What is expected of a metric, with the quantile that is meant where it is one of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

/// How probable it is at most that calls which keep the limit ever look as if they didn't, at any look.
pub const LEVEL: f64 = 0.001;

/// Whether what was measured lies beyond the limit, by more than chance does to calls that keep it.
///
/// `quantile`, from 0 to 1, is what is limited of values; of counts it is the rate of events.
pub fn is_beyond(sample: &Sample, quantile: f64, limit: Limit) -> bool {
    let beyond = match sample {
        Sample::Counts(counts) => Some((*counts, limit)),
        Sample::Measured(values) => Some(hits(values, quantile, limit)),
        // Raw values come as series, whose points aren't independent calls; histograms say no more than `Measured`.
        Sample::Values(_) | Sample::Histogram(_) => None,
    };
    beyond.is_some_and(|(counts, limit)| ln_evidence(counts, limit) >= -LEVEL.ln())
}

/// Calls on the wrong side of a limit of a quantile (0 to 1) as events, and how many of them may be.
pub fn hits(values: &Values, quantile: f64, limit: Limit) -> (Counts, Limit) {
    let is_wrong = |lo: f64, hi: f64| match limit {
        Limit::AtMost(most) => lo > most,
        Limit::AtLeast(least) => hi < least,
    };
    let share = match limit {
        Limit::AtMost(_) => 1.0 - quantile,
        Limit::AtLeast(_) => quantile,
    };
    let count = |all: &mut dyn Iterator<Item = (f64, f64, u64)>| {
        all.filter(|(lo, hi, _)| is_wrong(*lo, *hi)).map(|(_, _, count)| count).sum()
    };
    // Of a bucket that the limit lies in nothing is known.
    let events = match values.exact() {
        Some(pairs) => count(&mut pairs.iter().map(|(value, count)| (*value, *value, *count))),
        None => count(&mut values.to_histogram().buckets()),
    };
    (Counts { calls: values.count(), events }, Limit::AtMost(share))
}

/// ln E, the evidence that the rate of events lies beyond the limit. Where it doesn't, E exceeds 1/level at any look ever with
/// probability `level` at most.
pub fn ln_evidence(counts: Counts, limit: Limit) -> f64 {
    let (hits, p) = match limit {
        Limit::AtMost(most) => (counts.events, most),
        // Too few events are too many calls without one.
        Limit::AtLeast(least) => (counts.calls.saturating_sub(counts.events), 1.0 - least),
    };
    if counts.calls == 0 || p >= 1.0 {
        return 0.0;
    }
    // What can't happen has happened.
    if p <= 0.0 {
        return if hits > 0 { f64::INFINITY } else { 0.0 };
    }
    let (n, k) = (counts.calls as f64, hits as f64);
    let ln_beta = libm::lgamma(k + 1.0) + libm::lgamma(n - k + 1.0) - libm::lgamma(n + 2.0);
    let tail = binomial_cdf(hits, counts.calls.saturating_add(1), p).ln();
    ln_beta + tail - k * p.ln() - (n - k + 1.0) * (-p).ln_1p()
}

/// Calls beyond which nobody asks.
const MOST_CALLS: u64 = 1 << 40;

/// About how many calls it takes until the evidence is there at this `level`, where a `share` of them are events and `most` may be
/// (both from 0 to 1): so many that the expected number of events is enough. `None`: no number is.
pub fn calls_until(share: f64, most: f64, level: f64) -> Option<u64> {
    let is_enough = |calls: u64| {
        let events = (share.clamp(0.0, 1.0) * calls as f64).floor() as u64;
        ln_evidence(Counts { calls, events }, Limit::AtMost(most)) >= -level.ln()
    };
    let mut most_calls = 1;
    while !is_enough(most_calls) {
        most_calls *= 2;
        if most_calls > MOST_CALLS {
            return None;
        }
    }
    let (mut low, mut high) = (most_calls / 2, most_calls);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if is_enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
