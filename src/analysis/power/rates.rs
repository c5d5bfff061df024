//! Rates: few events, summed up over all numbers of them that may come.
//!
//! Of E1 + E2 events the canary's E2 are binomial (Przyborowski and Wilenski 1940), and that test is made on whole numbers: an
//! approximation by a normal distribution would be wrong by as much as what is asked for. E1 and E2 are binomial for
//! themselves; where they may have many values, some dozens of them stand for all.

use crate::{
    data::Counts,
    dist::{binomial_cdf, binomial_sf, normal_z},
    rate::share,
};

/// Numbers of events that are looked at one by one; of more, so many stand for all.
const PLACES: u64 = 64;

/// How far numbers of events are looked at, in standard deviations.
const REACH: f64 = 6.0;

/// By what it is told whether the canary has more or fewer events than at a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Test {
    /// The binomial distribution, at this level.
    Exact(f64),
    /// So many standard deviations of independent events: others vary more.
    Score(f64),
}

impl Test {
    /// Fewer than at the share `pi` of all events.
    fn fewer(self, e2: u64, all: u64, pi: f64) -> bool {
        match self {
            Self::Exact(level) => binomial_cdf(e2, all, pi) <= level,
            Self::Score(z) => Self::score(e2, all, pi) <= -z,
        }
    }

    fn more(self, e2: u64, all: u64, pi: f64) -> bool {
        match self {
            Self::Exact(level) => binomial_sf(e2, all, pi) <= level,
            Self::Score(z) => Self::score(e2, all, pi) >= z,
        }
    }

    fn score(e2: u64, all: u64, pi: f64) -> f64 {
        let all = all as f64;
        (e2 as f64 - all * pi) / (all * pi * (1.0 - pi)).sqrt()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Events {
    /// Of calls that are events, on both sides.
    pub rate: f64,
    /// Of calls that are the canary's.
    pub share: f64,
}

impl Events {
    fn calls(self, calls: u64) -> (u64, u64) {
        let canary = ((calls as f64 * self.share).round() as u64).clamp(1, calls.max(2) - 1);
        (calls.max(2) - canary, canary)
    }

    /// The share of canaries whose rate is `change` times that of the baseline that pass: what is left of the alternative
    /// "ratio at the boundary or beyond", or of "at the floor or above" at the level beside it.
    pub fn pass(self, calls: u64, ratio: f64, change: f64, floor: Option<(f64, f64)>, test: Test) -> f64 {
        let (m, n) = self.calls(calls);
        let (pi, high) = (pi(m, n, ratio), ratio > 1.0);
        let below = |e2: u64| floor.is_some_and(|(floor, alpha)| binomial_cdf(e2, n, floor) <= alpha);
        let safe = |e1: u64, e2: u64| {
            let all = e1 + e2;
            all > 0 && if high { test.fewer(e2, all, pi) } else { test.more(e2, all, pi) }
        };
        // Upwards the pass needs many events of the baseline beside those of the canary, downwards few.
        let mut least = 0;
        expected(n, (self.rate * change).min(1.0), |e2| {
            if below(e2) {
                return 1.0;
            }
            if high {
                least = first(least, m, |e1| safe(e1, e2)).unwrap_or(m + 1);
                binomial_sf(least, m, self.rate)
            } else {
                match first(0, m, |e1| !safe(e1, e2)) {
                    Some(0) => 0.0,
                    Some(e1) => binomial_cdf(e1 - 1, m, self.rate),
                    None => 1.0,
                }
            }
        })
    }

    /// The share of canaries with another rate that fail: the boundary is crossed, and at the level beside it the higher rate is
    /// above the floor.
    pub fn fail(self, calls: u64, ratio: f64, change: f64, floor: Option<(f64, f64)>, test: Test) -> f64 {
        let (m, n) = self.calls(calls);
        let (pi, rate, high) = (pi(m, n, ratio), (self.rate * change).min(1.0), ratio > 1.0);
        let least_above = floor.map_or(0, |(floor, alpha)| {
            let side = if high { n } else { m };
            first(0, side, |events| binomial_sf(events, side, floor) <= alpha).unwrap_or(side + 1)
        });
        let worse = |e1: u64, e2: u64| {
            let all = e1 + e2;
            let is_above = if high { e2 } else { e1 } >= least_above;
            all > 0 && is_above && if high { test.more(e2, all, pi) } else { test.fewer(e2, all, pi) }
        };
        // The more errors on the baseline, the more it takes on the canary.
        let mut least = 0;
        expected(m, self.rate, |e1| {
            if high {
                least = first(least, n, |e2| worse(e1, e2)).unwrap_or(n + 1);
                binomial_sf(least, n, rate)
            } else if worse(e1, 0) {
                match first(0, n, |e2| !worse(e1, e2)) {
                    Some(e2) => binomial_cdf(e2 - 1, n, rate),
                    None => 1.0,
                }
            } else {
                0.0
            }
        })
    }

    /// What is expected to be counted, and the canary's share of it at a ratio.
    pub fn counted(self, calls: u64, ratio: f64) -> (f64, f64) {
        let (m, n) = self.calls(calls);
        (self.rate * calls as f64, pi(m, n, ratio))
    }
}

fn pi(m: u64, n: u64, ratio: f64) -> f64 {
    share(Counts { calls: m, events: 0 }, Counts { calls: n, events: 0 }, ratio)
}

/// The first number from `low` to `high` of which something holds that holds of all above it.
fn first(low: u64, high: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    // Events are few among calls: doubling finds their size sooner than halving all calls.
    if low > high {
        return None;
    }
    let (mut before, mut at, mut step) = (low, low, 1);
    while !holds(at) {
        if at >= high {
            return None;
        }
        before = at + 1;
        at = (at + step).min(high);
        step *= 2;
    }
    while before < at {
        let middle = u64::midpoint(before, at);
        if holds(middle) { at = middle } else { before = middle + 1 }
    }
    Some(at)
}

/// The mean of a function of a binomial number.
pub fn expected(n: u64, p: f64, mut f: impl FnMut(u64) -> f64) -> f64 {
    let (mean, sd) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
    let low = (mean - REACH * sd - 3.0).max(0.0) as u64;
    let high = ((mean + REACH * sd + normal_z(1e-12)).ceil() as u64).min(n);
    let step = (high - low).div_ceil(PLACES).max(1);
    let (mut sum, mut weights, mut from) = (0.0, 0.0, low);
    while from <= high {
        let to = (from + step).min(high + 1);
        let weight = binomial_sf(from, n, p) - binomial_sf(to, n, p);
        if weight > 1e-12 {
            sum += weight * f(u64::midpoint(from, to - 1));
            weights += weight;
        }
        from = to;
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}
