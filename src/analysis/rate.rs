//! Rates compared by their counts.
//!
//! Of E1 + E2 events on m baseline and n canary calls, E2 is binomial with π = nρ/(nρ + m) if the rates have the ratio ρ
//! (Przyborowski and Wilenski 1940). Exact for rare events, on the safe side for frequent ones, and it works without
//! any event on the baseline.

use serde::{Deserialize, Serialize};

use super::{
    data::Counts,
    dist::{Lattice, binomial_cdf, binomial_pmf, binomial_sf},
    sums::{Sums, Tails},
};

/// Shares closer than this are one.
const SAME_SHARE: f64 = 1e-12;

/// The canary's share of events if the rates have the ratio `ratio`.
pub fn share(baseline: Counts, canary: Counts, ratio: f64) -> f64 {
    let (m, n) = (baseline.calls as f64, canary.calls as f64 * ratio);
    n / (n + m)
}

/// The variance with which a centred Bernoulli variable is sub-Gaussian (Kearns and Saul 1998).
pub fn sub_gaussian(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return 0.0;
    }
    if (p - 0.5).abs() < 1e-6 {
        return 0.25;
    }
    (1.0 - 2.0 * p) / (2.0 * ((1.0 - p) / p).ln())
}

/// One version's events and calls against a limit, as independent ones: parts of them where calls depend on each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Independent {
    events: f64,
    calls: f64,
}

impl Independent {
    /// `factor`: how much more the number of events varies than that of independent ones.
    pub fn of(counts: Counts, factor: f64) -> Self {
        Self { events: counts.events as f64 / factor, calls: counts.calls as f64 / factor }
    }

    /// What there is to tell, as [`super::alpha_spending`] takes it: against a given share each call tells as much as another.
    pub fn information(self, limit: f64) -> f64 {
        self.calls * limit * (1.0 - limit)
    }

    /// How far the rate lies from this one, in standard deviations that it has there.
    pub fn distance(self, rate: f64) -> f64 {
        (self.events - self.calls * rate).abs() / self.information(rate).sqrt()
    }

    /// The probability of so few, or fewer, at this rate.
    pub fn lower(self, rate: f64) -> f64 {
        let (events, calls) = self.rounded_up();
        binomial_cdf(events, calls, rate)
    }

    /// The probability of so many, or more.
    pub fn upper(self, rate: f64) -> f64 {
        let (events, calls) = self.rounded_down();
        binomial_sf(events, calls, rate)
    }

    /// In whole numbers, on the side of more events.
    pub fn rounded_up(self) -> (u64, u64) {
        (self.events.ceil() as u64, self.calls.floor() as u64)
    }

    /// On the side of fewer.
    pub fn rounded_down(self) -> (u64, u64) {
        (self.events.floor() as u64, self.calls.ceil() as u64)
    }
}

/// Counts of strata, with the exact null distribution while it is within reach.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    pub sums: Sums,
    pub baseline: Counts,
    pub canary: Counts,
    /// Events of strata in which both sides were called, and the canary's part of them.
    events: u64,
    canary_events: u64,
    /// ln of the probabilities that all these events are the canary's, and that none is: nothing is less probable.
    ln_least: [f64; 2],
    lattice: Lattice,
    /// The one share π that all strata with events have.
    share: Option<f64>,
    shares_differ: bool,
}

impl Rates {
    /// Adds a stratum, for the null hypothesis that the rates have the ratio `ratio`.
    pub fn add(&mut self, baseline: Counts, canary: Counts, ratio: f64) {
        self.baseline.calls += baseline.calls;
        self.baseline.events += baseline.events;
        self.canary.calls += canary.calls;
        self.canary.events += canary.events;
        let events = baseline.events + canary.events;
        let mut sums =
            Sums { baseline: baseline.calls as f64, canary: canary.calls as f64, ..Sums::default() };
        if baseline.calls > 0 && canary.calls > 0 && events > 0 {
            let pi = share(baseline, canary, ratio);
            let e = events as f64;
            self.events += events;
            self.canary_events += canary.events;
            self.ln_least[0] += e * pi.ln();
            self.ln_least[1] += e * (-pi).ln_1p();
            sums.s = canary.events as f64 - e * pi;
            sums.v = e * pi * (1.0 - pi);
            sums.k = sums.v * (1.0 - 2.0 * pi);
            sums.proxy = e * sub_gaussian(pi);
            match self.share {
                None => self.share = Some(pi),
                Some(known) => self.shares_differ |= (known - pi).abs() > SAME_SHARE,
            }
            self.lattice.add(events, |k| binomial_pmf(k, events, pi));
        }
        self.sums.add(&sums);
    }

    /// Tails that nothing goes below, however large the statistic.
    pub fn least(&self) -> [f64; 2] {
        self.ln_least.map(f64::exp)
    }

    /// Exact where all strata have one share or events are few; else by Pearson's type III.
    pub fn tails(&self) -> Tails {
        if self.sums.v <= 0.0 {
            return Tails::NOTHING;
        }
        let rough = self.sums.tails(1.0, 0.5);
        let (k, events) = (self.canary_events, self.events);
        let exact = match self.share {
            Some(pi) if !self.shares_differ => {
                Some((binomial_sf(k, events, pi), binomial_cdf(k, events, pi)))
            }
            _ => self.lattice.tails(k),
        };
        exact.map_or(rough, |(upper, lower)| Tails { upper, lower, ..rough })
    }
}

/// ln of the evidence that events are rarer than `floor`: the mixture of likelihood ratios over all rates below it, each as
/// probable before (Robbins 1970). Under any rate from the floor on it exceeds 1/alpha ever with probability alpha at most.
pub(super) fn ln_below(events: u64, calls: u64, floor: f64) -> f64 {
    let below = binomial_sf(events + 1, calls + 1, floor).max(f64::MIN_POSITIVE).ln();
    below - floor.ln() + ln_uniform(events, calls, floor)
}

/// The same of the evidence that they are more frequent.
pub(super) fn ln_above(counts: Independent, floor: f64) -> f64 {
    let (events, calls) = counts.rounded_down();
    let above = binomial_cdf(events, calls + 1, floor).max(f64::MIN_POSITIVE).ln();
    above - (-floor).ln_1p() + ln_uniform(events, calls, floor)
}

/// ln of the mixture over all rates.
fn ln_uniform(events: u64, calls: u64, floor: f64) -> f64 {
    let (k, n) = (events as f64, calls as f64);
    let floor_ln = k * floor.ln() + (n - k) * (-floor).ln_1p();
    let ln_beta = libm::lgamma(k + 1.0) + libm::lgamma(n - k + 1.0) - libm::lgamma(n + 2.0);
    ln_beta - floor_ln
}
