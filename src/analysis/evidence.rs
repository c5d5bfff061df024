//! What a verdict rests on: everything a developer needs to believe it or not.

use serde::{Deserialize, Serialize};

use super::{effects::Between, split::SplitEvidence};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The upper bound of the difference lies below the tolerance.
    Pass,
    /// The canary is worse by more than the tolerance.
    Fail,
    /// Neither could be shown.
    Inconclusive,
    NoData,
    /// The data can't be judged; never a pass.
    Error,
}

impl Verdict {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "Pass",
            Self::Fail => "Fail",
            Self::Inconclusive => "Inconclusive",
            Self::NoData => "No data",
            Self::Error => "Error",
        }
    }
}

/// The inputs of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Why, in one sentence.
    pub sentence: String,
    pub baseline: SideSummary,
    pub canary: SideSummary,
    /// How the canary compares; absent without enough data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// One of each that took part in the verdict.
    pub tests: Vec<TestEvidence>,
    /// Looks that counted, this one included, also those that found nothing to judge by.
    pub looks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_looks: Option<u64>,
    /// It passed before its last look.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early: bool,
    /// Of a rate with a floor: where the canary's rate lies below it for certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_floor: Option<BelowFloor>,
    /// Of this metric.
    pub alpha: f64,
    /// Of it, spent so far.
    pub alpha_spent: f64,
    /// With a probability of 80 % so many more calls on both sides together decide, or fewer, at the split there was: an upper
    /// bound, which takes in how uncertain the estimate is. Absent where no number can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_calls: Option<u64>,
    /// How much the children differ by which it is judged; absent where that isn't told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Between>,
    /// How the calls were shared out between the versions; absent where no split was ordered, or the calls aren't known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitEvidence>,
}

impl Evidence {
    /// The sentence without the verdict that it begins with, for where that is said beside it.
    pub fn reason(&self) -> &str {
        self.sentence.split_once(": ").map_or(&self.sentence, |(_, reason)| reason)
    }
}

/// A rate below which nothing fails, and how high the canary's may be at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BelowFloor {
    pub floor: f64,
    /// The upper bound of the canary's rate (Clopper and Pearson 1934), at half of alpha, or at the level of this look where a
    /// pass may come early.
    pub at_most: f64,
}

/// One side, all strata together: to be read, not to be judged by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SideSummary {
    pub count: u64,
    /// In the unit of the values, exact; absent where their sum isn't known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// The estimate with its interval, which inverts the test of the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// Canary against baseline: a ratio (1 = the same), or a difference for absolute tolerances.
    pub estimate: f64,
    /// Ends of the two-sided interval; absent where the data don't bound it.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The error with which a difference can be known from these values at all: the steps of a clock, the width of buckets.
    /// The ends of the interval hold it. Absent where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Of the interval: 1 − 2 alpha, so that each end is the bound that a one-sided test at alpha excludes; at the level of this
    /// look where a pass may come early.
    pub confidence: f64,
    /// P(canary > baseline) + ½ P(equal); absent for rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superiority: Option<f64>,
    /// A ratio, not a difference.
    pub relative: bool,
}

/// One test of a metric at a look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestEvidence {
    /// For instance "higher by more than the tolerance".
    pub name: String,
    /// Standard scores: what was found, and what would have been a fail.
    pub z: f64,
    pub boundary: Option<f64>,
    /// Of "not worse by more than the tolerance"; small: fail.
    pub p: f64,
    /// Of "worse by at least the tolerance"; small: pass.
    pub p_pass: f64,
    /// What `p` had to reach at this look.
    pub level: Option<f64>,
    /// What `p_pass` had to reach at this look, where a pass may come early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_level: Option<f64>,
    /// The null variance of the rank sum, the sum of the strata's.
    pub information: f64,
    pub crossed: bool,
}

impl TestEvidence {
    /// It is as improbable as a fail has to be, and was none: a rate that isn't above its floor by more than chance.
    pub(super) fn waits_for_floor(&self) -> bool {
        !self.crossed && self.level.is_some_and(|level| self.p <= level)
    }
}
