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
//! have to have for the same power ([`level`]). What one side's clock can't tell is tested as the judge does: a pass closer to
//! what is equal, a fail further from it. Of children that may differ see [`Among`].
//!
//! What is assumed of the data is said by whoever asks, as a spread or as a sample that was observed. Not here: how long it
//! takes, which is a matter of who calls.

mod children;
mod condition;
mod level;
mod outcome;
mod rates;
mod series;
mod shape;

use serde::{Deserialize, Serialize};

pub use self::{
    children::Among,
    condition::{Chances, KeptCondition, chances, least_calls},
    level::level,
};
use self::{rates::Events, series::Series, shape::Shape};
use super::{
    data::{Sample, Stratum},
    design::{Design, Deviation, Question, RunVariation, Sampling, Tolerance},
    zeros::is_mostly_zero,
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
    /// Points of time series as in these, an interval each; the canary's may be missing.
    Series(Vec<Stratum>),
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
    #[error("most values are 0, which gives an absolute tolerance no typical value")]
    MostlyZero,
    #[error("it can't be told from such data: {}", resolution(*error, *tolerance))]
    Resolution { error: f64, tolerance: Tolerance },
    #[error("an absolute tolerance can't be planned without a typical value")]
    NoMedian,
    #[error("how much one version varies from run to run isn't known")]
    RunVariation,
}

fn resolution(error: f64, tolerance: Tolerance) -> String {
    match tolerance {
        Tolerance::Ratio(ratio) => format!(
            "their clock leaves {:.1} % of a typical value open, and the tolerance is {} %",
            error * 100.0,
            ratio * 100.0
        ),
        Tolerance::Shift(shift) => {
            format!("their clock leaves {error:.3} of a typical value open, and the tolerance is {shift}")
        }
    }
}

/// What a number of calls is good for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PowerAt {
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
    /// The same to let what is good pass.
    level_of_pass: f64,
    /// Variance of the difference of two runs, in logarithms.
    between_runs: f64,
    /// Whose calls they are, where that makes a difference.
    among: Option<Among>,
}

#[derive(Debug, Clone)]
enum Data {
    Values(Shape),
    Events(Events),
    /// Most are 0: how many aren't is judged, and apart from that those that aren't.
    Parts {
        present: Events,
        values: Shape,
    },
    Series {
        series: Series,
        values: Shape,
    },
}

impl Data {
    fn of(design: &Design, spread: &Spread, share: f64) -> Result<Self, PowerFault> {
        let is_rate = matches!(design.question, Question::Rate { .. });
        match spread {
            Spread::Events { rate } if is_rate && (0.0..1.0).contains(rate) => {
                Ok(Self::Events(Events { rate: *rate, share }))
            }
            Spread::Events { rate } if is_rate => Err(PowerFault::Rate(*rate)),
            Spread::Events { .. } => Err(PowerFault::Kind),
            _ if is_rate => Err(PowerFault::Kind),
            Spread::LogNormal { ln_sd, median } => {
                Ok(Self::Values(Shape::log_normal(*ln_sd, *median, design)?))
            }
            Spread::Series(strata) => {
                let series = Series::of(strata);
                Ok(Self::Series { values: Shape::observed(&series.values(), design, false)?, series })
            }
            Spread::Observed(sample) => {
                let relative = matches!(design.tolerance, Tolerance::Ratio(_));
                let twice = Stratum::new("", 0, sample.clone(), sample.clone());
                let in_parts = design.question == Question::Location
                    && relative
                    && design.sampling == Sampling::Calls
                    && sample.count() > 0
                    && is_mostly_zero(&[twice]);
                let values = Shape::observed(sample, design, in_parts)?;
                Ok(if in_parts {
                    let rate = values.count() / sample.count() as f64;
                    Self::Parts { present: Events { rate, share }, values }
                } else {
                    Self::Values(values)
                })
            }
        }
    }
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
        let data = Data::of(design, spread, canary_share)?;
        let between_runs = match &design.run_variation {
            None => 0.0,
            Some(RunVariation::Given(variation)) => 2.0 * variation * variation,
            Some(RunVariation::Windows(_) | RunVariation::Unknown) => return Err(PowerFault::RunVariation),
        };
        let directions = if design.deviation == Deviation::Either { 2.0 } else { 1.0 };
        let parts = if matches!(data, Data::Parts { .. }) { 2.0 } else { 1.0 };
        let level = level(design.end, design.planned_alpha() / (directions * parts));
        let level_of_pass = level::level_of_pass(design.end, design.planned_alpha(), design.early);
        let design = design.clone();
        Ok(Self { design, share: canary_share, data, level, level_of_pass, between_runs, among: None })
    }

    /// The same where the calls are those of children that may differ.
    #[must_use]
    pub fn among(self, among: Option<Among>) -> Self {
        Self { among, ..self }
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

    pub fn point(&self, calls: u64) -> PowerAt {
        PowerAt { calls, passes: self.passes(calls), smallest_change: self.smallest_change(calls) }
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
}
