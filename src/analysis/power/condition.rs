//! Plain conditions, each child by itself: how often chance alone breaks one, or leaves nothing to judge.

use super::rates::expected;
use crate::dist::{binomial_cdf, binomial_sf};

/// Calls are not searched beyond this.
const MOST_CALLS: u64 = 2_000_000;

/// What must hold of the calls of the new version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeptCondition {
    /// The share of errors is below the threshold, or at most as high.
    Errors { threshold: f64, or_equal: bool },
    /// The quantile of the times is on the good side of a threshold beyond which the share `beyond` of all calls lies.
    Quantile { q: f64, beyond: f64 },
    /// No time is beyond it.
    All { beyond: f64 },
    /// At least one time isn't.
    One { beyond: f64 },
}

/// Shares of children.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Chances {
    /// The condition is broken, though the version is as good as the base version.
    pub fails: f64,
    /// The new version had no call.
    pub untested: f64,
}

/// Of children that had `calls` of both versions, of which each went to the new one with the probability `share`; each call
/// fails with the probability `rate`.
pub fn chances(kept: KeptCondition, calls: u64, share: f64, rate: f64) -> Chances {
    let untested = (calls as f64 * (-share).ln_1p()).exp();
    let fails = expected(calls, share, |n| if n == 0 { 0.0 } else { broken(kept, n, rate) });
    Chances { fails: fails.clamp(0.0, 1.0), untested }
}

/// By `n` calls of the new version.
fn broken(kept: KeptCondition, n: u64, rate: f64) -> f64 {
    match kept {
        KeptCondition::Errors { threshold, or_equal } => {
            let most = threshold * n as f64;
            // With room for what a product of floats is off.
            let near = (most - most.round()).abs() < 1e-9;
            let least = match (or_equal, near) {
                (true, true) => most.round() + 1.0,
                (false, true) => most.round(),
                (_, false) => most.ceil(),
            };
            if least > n as f64 { 0.0 } else { binomial_sf(least.max(0.0) as u64, n, rate) }
        }
        // So many must not be beyond: the rank of the quantile counted from the top.
        KeptCondition::Quantile { q, beyond } => {
            let rank = (q * n as f64 - 1e-9).ceil().max(1.0) as u64;
            binomial_sf(n - rank.min(n) + 1, n, beyond)
        }
        KeptCondition::All { beyond } => 1.0 - binomial_cdf(0, n, beyond),
        KeptCondition::One { beyond } => binomial_sf(n, n, beyond),
    }
}

/// The fewest calls from which on chance breaks the condition for, or leaves untested, at most the share `most` of
/// children; `None`: no number of calls does.
pub fn least_calls(kept: KeptCondition, share: f64, rate: f64, most: f64) -> Option<u64> {
    let enough = &|calls: u64| {
        let found = chances(kept, calls, share, rate);
        found.fails + found.untested <= most
    };
    // It rises and falls by single errors on its way: what counts is the last number that isn't enough. It is searched for
    // from the top, first among places a quarter apart, then among some a fiftieth apart.
    let (low, high) = last_bad(1, MOST_CALLS, 4, enough)?;
    last_bad(low, high, 50, enough).map(|(_, high)| high)
}

/// The last of some places from `low` to `high` that is not enough, and the one after it; 0 where all are enough. The places are
/// one part in `parts` apart. `None`: the highest isn't enough.
fn last_bad(low: u64, high: u64, parts: u64, enough: impl Fn(u64) -> bool) -> Option<(u64, u64)> {
    let mut places = vec![low.max(1)];
    while let Some(last) = places.last().copied().filter(|last| *last < high) {
        places.push((last + 1 + last / parts).min(high));
    }
    let good = places.iter().rev().take_while(|calls| enough(**calls)).count();
    let first = places.len() - good;
    let before = first.checked_sub(1).map_or(0, |at| places[at]);
    Some((before, *places.get(first)?))
}
