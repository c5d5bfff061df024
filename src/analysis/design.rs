//! What is asked of one metric, before any data are seen.

use serde::{Deserialize, Serialize};

/// Most looks of one judgement. The last of so many has 0.0001 of an alpha of 0.1 to itself.
pub const MAX_LOOKS: u64 = 1_000;

/// Largest tolerance, as a share.
pub const MAX_TOLERANCE: f64 = 10.0;

/// Alpha of a release where nothing else is said.
pub const DEFAULT_ALPHA: f64 = 0.05;

/// The share of events up to which nothing fails, and of values other than 0 beside nothing but zeros, where nothing else is said.
pub const DEFAULT_FLOOR: f64 = 0.001;

/// What is asked of one metric. It doesn't change while the metric is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Design {
    pub question: Question,
    pub deviation: Deviation,
    pub tolerance: Tolerance,
    /// This metric's share of the release's alpha: the most false alarms and, apart, the most false passes.
    pub alpha: f64,
    pub end: End,
    pub sampling: Sampling,
    /// For a comparison with an earlier run: what differs from run to run and is no fault of the new version.
    pub run_variation: Option<RunVariation>,
    /// The part of alpha that no planned look spends, from 0 to a half: kept for going on after an end that decides nothing.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub reserve: f64,
    /// The part of alpha, on the side of a pass, that looks before the last may spend on passing early, from 0 (only the last
    /// look can pass) to 0.9. It takes looks before the last, so an end that is known and more than one look.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub early: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_nothing(part: &f64) -> bool {
    *part <= 0.0
}

/// Which property of the metric is compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Question {
    /// Where most values lie: Mann–Whitney.
    Location,
    /// The share of values beyond the pooled quantile, for instance 0.99.
    Quantile(f64),
    /// The share of calls that were counted as events, errors for instance. Only a rate that is above `floor`
    /// by more than chance fails.
    Rate { floor: f64 },
}

/// Which way is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Deviation {
    High,
    Low,
    /// Both; each has half of alpha.
    Either,
}

/// How much worse is still good.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tolerance {
    /// A share of the baseline, 0.05 for 5 %. The values mustn't be negative.
    Ratio(f64),
    /// An amount in the metric's unit, for values of any sign.
    Shift(f64),
}

/// When the data are looked at, and when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// One look at data that are complete.
    Once,
    /// A look each interval, and the last at the end of the duration.
    #[serde(rename_all = "camelCase")]
    After { duration_ms: u64, interval_ms: u64, spending: Spending },
    /// A look each interval for as long as it takes; only a fail can be found before [`super::Occasion::Last`].
    #[serde(rename_all = "camelCase")]
    Open { interval_ms: u64 },
}

/// How alpha is spent over the share of the duration that has gone by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Spending {
    /// Most of it on the way, a little more of that early than late, and a reserve for the last look. A large change is
    /// found as soon as with `Linear`; a small one, which takes all the data anyway, with less of them.
    #[default]
    Reserve,
    /// alpha · t (Kim and `DeMets` 1987, exponent 1).
    Linear,
    /// 2 − 2 Φ(z₁₋α/₂ / √t), like O'Brien and Fleming's bounds (Lan and `DeMets` 1983).
    OBrienFleming,
    /// alpha · ln(1 + (e − 1) t), like Pocock's bounds (Lan and `DeMets` 1983).
    Pocock,
}

/// How the values came about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sampling {
    /// Calls, assigned to the versions at random: exchangeable, whatever their autocorrelation.
    #[default]
    Calls,
    /// Points of a time series for each version, in order of time.
    Series,
}

/// The variation from run to run of one and the same version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunVariation {
    /// The relative standard deviation of a run, 0.03 for 3 %.
    Given(f64),
    /// A typical value (median or rate) of each of at least 5 earlier runs.
    Windows(Vec<f64>),
    /// Neither is known: nothing can be decided.
    Unknown,
}

/// Why a design can't be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DesignFault {
    #[error("tolerance {0} is not above 0 and at most {max} %", max = MAX_TOLERANCE * 100.0)]
    Tolerance(f64),
    #[error("a tolerance of {0} downwards leaves nothing: it must be below 100 %")]
    ToleranceDown(f64),
    #[error("alpha {0} is not above 0 and at most 0.5")]
    Alpha(f64),
    #[error("a reserve of {0} of alpha is not from 0 to 0.5")]
    Reserve(f64),
    #[error("a part of {0} of alpha for passing early is not from 0 to 0.9")]
    Early(f64),
    #[error("quantile {0} is not above 0 and below 1")]
    Quantile(f64),
    #[error("floor {0} is no share from 0 to 1")]
    Floor(f64),
    #[error("a rate takes a relative tolerance: its floor is the absolute one")]
    RateShift,
    #[error("interval 0: looks need some time between them")]
    Interval,
    #[error("duration {duration_ms} ms is shorter than the interval, {interval_ms} ms")]
    Duration { duration_ms: u64, interval_ms: u64 },
    #[error("{looks} looks are more than {MAX_LOOKS}: make the interval longer")]
    Looks { looks: u64 },
    #[error("a run variation of {0} is not above 0 and below 1")]
    RunVariation(f64),
    #[error("values that vary from run to run can't be judged without an end")]
    OpenPrevious,
    #[error("points of a time series can't be judged without an end")]
    OpenSeries,
}

impl Design {
    /// Location, higher is worse, alpha 0.05, one look at calls.
    pub const fn new(tolerance: Tolerance) -> Self {
        Self {
            question: Question::Location,
            deviation: Deviation::High,
            tolerance,
            alpha: DEFAULT_ALPHA,
            end: End::Once,
            sampling: Sampling::Calls,
            run_variation: None,
            reserve: 0.0,
            early: 0.0,
        }
    }

    /// What the planned looks spend of alpha, and, apart, at which a pass is shown at their end.
    pub fn planned_alpha(&self) -> f64 {
        self.alpha * (1.0 - self.reserve)
    }

    /// The first fault, if there is one.
    pub fn check(&self) -> Result<(), DesignFault> {
        self.check_tolerance()?;
        if !(self.alpha > 0.0 && self.alpha <= 0.5) {
            return Err(DesignFault::Alpha(self.alpha));
        }
        if !(self.reserve >= 0.0 && self.reserve <= 0.5) {
            return Err(DesignFault::Reserve(self.reserve));
        }
        if !(self.early >= 0.0 && self.early <= 0.9) {
            return Err(DesignFault::Early(self.early));
        }
        match self.question {
            Question::Quantile(q) if !(q > 0.0 && q < 1.0) => return Err(DesignFault::Quantile(q)),
            Question::Rate { floor } if !(0.0..=1.0).contains(&floor) => {
                return Err(DesignFault::Floor(floor));
            }
            Question::Location | Question::Quantile(_) | Question::Rate { .. } => {}
        }
        if let Some(RunVariation::Given(v)) = self.run_variation
            && !(v > 0.0 && v < 1.0)
        {
            return Err(DesignFault::RunVariation(v));
        }
        self.check_end()
    }

    fn check_tolerance(&self) -> Result<(), DesignFault> {
        match self.tolerance {
            Tolerance::Ratio(r) if !(r > 0.0 && r <= MAX_TOLERANCE) => Err(DesignFault::Tolerance(r)),
            Tolerance::Ratio(r) if self.deviation != Deviation::High && r >= 1.0 => {
                Err(DesignFault::ToleranceDown(r))
            }
            Tolerance::Shift(_) if matches!(self.question, Question::Rate { .. }) => {
                Err(DesignFault::RateShift)
            }
            Tolerance::Shift(s) if !(s > 0.0 && s.is_finite()) => Err(DesignFault::Tolerance(s)),
            Tolerance::Ratio(_) | Tolerance::Shift(_) => Ok(()),
        }
    }

    fn check_end(&self) -> Result<(), DesignFault> {
        match self.end {
            End::After { interval_ms: 0, .. } | End::Open { interval_ms: 0 } => Err(DesignFault::Interval),
            End::After { duration_ms, interval_ms, .. } if duration_ms < interval_ms => {
                Err(DesignFault::Duration { duration_ms, interval_ms })
            }
            End::After { duration_ms, interval_ms, .. } => match duration_ms.div_ceil(interval_ms) {
                looks if looks > MAX_LOOKS => Err(DesignFault::Looks { looks }),
                _ => Ok(()),
            },
            End::Open { .. } if self.run_variation.is_some() => Err(DesignFault::OpenPrevious),
            End::Open { .. } if self.sampling == Sampling::Series => Err(DesignFault::OpenSeries),
            End::Once | End::Open { .. } => Ok(()),
        }
    }

    /// Whether a look before the last can pass.
    pub fn passes_early(&self) -> bool {
        self.early > 0.0 && matches!(self.end, End::After { .. })
    }

    /// The share of events that is allowed in any case, where a rate has one.
    pub fn floor(&self) -> Option<f64> {
        match self.question {
            Question::Rate { floor } if floor > 0.0 => Some(floor),
            Question::Rate { .. } | Question::Location | Question::Quantile(_) => None,
        }
    }

    /// Planned looks, where an end is known.
    pub fn looks(&self) -> Option<u64> {
        match self.end {
            End::Once => Some(1),
            End::After { duration_ms, interval_ms, .. } => Some(duration_ms.div_ceil(interval_ms.max(1))),
            End::Open { .. } => None,
        }
    }
}
