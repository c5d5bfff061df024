//! What it takes, worked out before there are data: how many calls let an equal version pass, and which change is found.
//!
//! A pass is non-inferiority at the tolerance (Blackwelder 1982), so an equal version passes with the power of that test at
//! a ratio of 1. Of N calls with the share c on the canary, the rank sum lies
//!
//! ```text
//! z = (P(canary > mapped baseline) + ½ P(equal) − ½) · √(12 N c (1 − c))
//! ```
//!
//! standard deviations from where it lies at the tolerance (Noether 1987), and the share beyond a quantile likewise with the
//! variance of a share. Rates are few events: their passes and fails are summed up exactly over the numbers of events that may
//! come. That there are several looks costs power and no false alarms; it is told by the one level that a single look would
//! have to have for the same power ([`level`]).
//!
//! What is assumed of the data is said by whoever asks, as a spread or as a sample that was observed. Not here: how long it
//! takes, which is a matter of who calls.

mod condition;
mod level;
mod rates;
mod shape;

use serde::{Deserialize, Serialize};

pub use self::{
    condition::{Chances, Kept, chances, least_calls},
    level::level,
};
use self::{rates::Events, shape::Shape};
use super::{
    data::Sample,
    design::{Design, Deviation, Question, RunVariation, Tolerance},
    dist::{normal_sf, normal_z},
};

/// The share of tests at which a change counts as found.
pub const POWER: f64 = 0.8;

/// More calls than this are as good as never.
pub const MAX_CALLS: u64 = 1_000_000_000_000;

/// Largest change searched for: a factor of a thousand.
const MAX_LN_CHANGE: f64 = 6.9;

/// Steps of a search by halving, which leave a change known to a ten-thousandth.
const HALVINGS: u32 = 17;

/// How exactly a number of calls is searched for: one in so many.
const EXACTNESS: u64 = 500;

/// How the values of one version vary.
#[derive(Debug, Clone, PartialEq)]
pub enum Spread {
    /// Log-normal values: the standard deviation of their logarithms, and their median in the metric's unit, which an
    /// absolute tolerance needs.
    LogNormal { ln_sd: f64, median: Option<f64> },
    /// Values as in this sample.
    Observed(Sample),
    /// This share of calls are events.
    Events { rate: f64 },
}

impl Spread {
    /// Log-normal, with a coefficient of variation (standard deviation by mean).
    pub fn of_variation(cv: f64, median: Option<f64>) -> Self {
        Self::LogNormal { ln_sd: (cv * cv).ln_1p().sqrt(), median }
    }
}

/// Why nothing can be said beforehand.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PowerFault {
    #[error(transparent)]
    Design(#[from] super::DesignFault),
    #[error("the canary's share {0} isn't between 0 and 1")]
    Share(f64),
    #[error("a variation of {0} isn't above 0")]
    Spread(f64),
    #[error("a rate of {0} is no share")]
    Rate(f64),
    #[error("a rate takes a rate of events, and values take a spread of values")]
    Kind,
    #[error("{0} values are too few to tell how they vary: it takes {least}", least = shape::LEAST_VALUES)]
    FewValues(u64),
    #[error("most values are 0, which is judged in two parts and not planned")]
    MostlyZero,
    #[error("an absolute tolerance can't be planned without a typical value")]
    NoMedian,
    #[error("how much one version varies from run to run isn't known")]
    RunVariation,
}

/// What a number of calls is good for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// On both sides together.
    pub calls: u64,
    /// The share of equal versions that pass.
    pub passes: f64,
    /// See [`Power::smallest_change`].
    pub smallest_change: Option<f64>,
}

/// What a metric takes.
#[derive(Debug, Clone)]
pub struct Power {
    design: Design,
    /// Of calls, for the canary.
    share: f64,
    data: Data,
    /// One-sided level of a single look with the power of all looks to find what is worse.
    level: f64,
    /// Variance of the difference of two runs, in logarithms.
    between_runs: f64,
}

#[derive(Debug, Clone)]
enum Data {
    Values(Shape),
    Events(Events),
}

/// A direction that is judged: higher is worse, or lower.
const HIGH: [bool; 1] = [true];
const LOW: [bool; 1] = [false];
const EITHER: [bool; 2] = [true, false];

impl Power {
    /// `canary_share` of the calls are the canary's.
    pub fn new(design: &Design, spread: &Spread, canary_share: f64) -> Result<Self, PowerFault> {
        design.check()?;
        if !(canary_share > 0.0 && canary_share < 1.0) {
            return Err(PowerFault::Share(canary_share));
        }
        let is_rate = matches!(design.question, Question::Rate { .. });
        let data = match spread {
            Spread::Events { rate } if is_rate && (0.0..1.0).contains(rate) => {
                Data::Events(Events { rate: *rate, share: canary_share })
            }
            Spread::Events { rate } if is_rate => return Err(PowerFault::Rate(*rate)),
            Spread::Events { .. } => return Err(PowerFault::Kind),
            _ if is_rate => return Err(PowerFault::Kind),
            Spread::LogNormal { ln_sd, median } => Data::Values(Shape::log_normal(*ln_sd, *median, design)?),
            Spread::Observed(sample) => Data::Values(Shape::observed(sample)?),
        };
        let between_runs = match &design.run_variation {
            None => 0.0,
            Some(RunVariation::Given(variation)) => 2.0 * variation * variation,
            Some(RunVariation::Windows(_) | RunVariation::Unknown) => return Err(PowerFault::RunVariation),
        };
        let directions = if design.deviation == Deviation::Either { 2.0 } else { 1.0 };
        let level = level(design.end, design.alpha / directions);
        Ok(Self { design: design.clone(), share: canary_share, data, level, between_runs })
    }

    /// The share of equal versions that pass with so many calls on both sides together.
    pub fn passes(&self, calls: u64) -> f64 {
        let misses: f64 = self.directions().iter().map(|high| 1.0 - self.pass(*high, calls)).sum();
        (1.0 - misses).max(0.0)
    }

    /// How many calls on both sides together let this share of equal versions pass; `None`: no number of them does.
    pub fn calls(&self, share: f64) -> Option<u64> {
        let enough = |calls: u64| self.passes(calls) >= share;
        let mut high = 16;
        while !enough(high) {
            high *= 2;
            if high > MAX_CALLS {
                return None;
            }
        }
        let mut low = high / 2;
        while high - low > 1 + low / EXACTNESS {
            let middle = u64::midpoint(low, high);
            if enough(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// The share of canaries that fail if they are changed by so much: a ratio to the baseline, or a difference.
    pub fn fails(&self, calls: u64, change: f64) -> f64 {
        self.directions().iter().map(|high| self.fail(*high, calls, change)).sum::<f64>().min(1.0)
    }

    /// The smallest change for the worse that so many calls find with [`POWER`]: a ratio, or a difference. Where both ways
    /// are worse, the one upwards. `None`: none that would still be a number.
    pub fn smallest_change(&self, calls: u64) -> Option<f64> {
        let high = self.directions().first().copied().unwrap_or(true);
        let found = |x: f64| self.fail(high, calls, self.change(high, x)) >= POWER;
        let (mut low, mut top) = (0.0, MAX_LN_CHANGE);
        if !found(top) {
            return None;
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + top);
            if found(middle) { top = middle } else { low = middle }
        }
        Some(self.change(high, top))
    }

    pub fn point(&self, calls: u64) -> Point {
        Point { calls, passes: self.passes(calls), smallest_change: self.smallest_change(calls) }
    }

    /// From 0, as good as it was, on: what the change is.
    fn change(&self, high: bool, x: f64) -> f64 {
        let signed = if high { x } else { -x };
        match self.design.tolerance {
            Tolerance::Ratio(_) => signed.exp(),
            Tolerance::Shift(tolerance) => signed.sinh() * tolerance,
        }
    }

    fn directions(&self) -> &'static [bool] {
        match self.design.deviation {
            Deviation::High => &HIGH,
            Deviation::Low => &LOW,
            Deviation::Either => &EITHER,
        }
    }

    /// The share of equal versions that aren't found to be within the tolerance in one direction, turned round.
    fn pass(&self, high: bool, calls: u64) -> f64 {
        let alpha = self.design.alpha;
        match (&self.data, self.design.question) {
            (Data::Events(events), Question::Rate { floor }) if self.between_runs == 0.0 => {
                let floor = (high && floor > 0.0).then_some(floor);
                // A floor is another way to be safe, and shares alpha with the first.
                let halved = matches!(self.design.question, Question::Rate { floor } if floor > 0.0);
                events.pass(calls, self.boundary(high), floor, if halved { 0.5 * alpha } else { alpha })
            }
            _ => {
                let none = self.unchanged();
                normal_sf(normal_z(alpha) + self.distance(high, calls, none))
            }
        }
    }

    fn fail(&self, high: bool, calls: u64, change: f64) -> f64 {
        match (&self.data, self.design.question) {
            (Data::Events(events), Question::Rate { floor }) if self.between_runs == 0.0 => {
                events.fail(calls, self.boundary(high), change, floor, self.level, high)
            }
            _ => normal_sf(normal_z(self.level) - self.distance(high, calls, change)),
        }
    }

    const fn unchanged(&self) -> f64 {
        match self.design.tolerance {
            Tolerance::Ratio(_) => 1.0,
            Tolerance::Shift(_) => 0.0,
        }
    }

    /// The ratio or shift at which the hypothesis is judged.
    fn boundary(&self, high: bool) -> f64 {
        match (self.design.tolerance, high) {
            (Tolerance::Ratio(r), true) => 1.0 + r,
            (Tolerance::Ratio(r), false) => 1.0 - r,
            (Tolerance::Shift(s), true) => s,
            (Tolerance::Shift(s), false) => -s,
        }
    }

    /// How far a changed canary lies beyond the boundary, in standard deviations; below 0 on this side of it.
    fn distance(&self, high: bool, calls: u64, change: f64) -> f64 {
        let (boundary, relative) =
            (self.boundary(high), matches!(self.design.tolerance, Tolerance::Ratio(_)));
        let between = calls as f64 * self.share * (1.0 - self.share);
        let z = match &self.data {
            Data::Events(events) => events.distance(calls, boundary, change),
            Data::Values(shape) => match self.design.question {
                Question::Quantile(q) => {
                    let (above, variance) = shape.beyond(q, boundary, change, relative, self.share);
                    // A count moves in whole steps: half of one is lost.
                    let lost = 0.5 / (between * variance).sqrt();
                    let z = above * (between / variance).sqrt();
                    if high { z - lost.copysign(z) } else { z + lost.copysign(-z) }
                }
                _ => shape.above(boundary, change, relative) * (12.0 * between / shape.untied()).sqrt(),
            },
        };
        let z = if high { z } else { -z };
        let way = if relative { (change / boundary).ln() } else { self.relative(change - boundary) };
        // What differs from run to run grows with the slope of the statistic, and is not reduced by traffic.
        let slope = if way.abs() > 1e-9 { z / way } else { 0.0 };
        z / (1.0 + self.between_runs * slope * slope).sqrt()
    }

    /// A difference as a share of a typical value.
    fn relative(&self, difference: f64) -> f64 {
        match &self.data {
            Data::Values(shape) => difference / shape.median(),
            Data::Events(_) => difference,
        }
    }
}
