//! A condition that a stage puts on the new version.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    pub metric: Metric,
    pub operator: Operator,
    /// Share from 0 to 1 for [`Metric::ErrorRate`], milliseconds for [`Metric::ResponseTime`].
    pub threshold: f64,
}

impl Condition {
    /// Whether `value` satisfies the condition.
    pub fn holds(&self, value: f64) -> bool {
        match self.operator {
            Operator::Less => value < self.threshold,
            Operator::LessOrEqual => value <= self.threshold,
            Operator::Greater => value > self.threshold,
            Operator::GreaterOrEqual => value >= self.threshold,
            #[expect(clippy::float_cmp, reason = "equal is what the developer asked for")]
            Operator::Equal => value == self.threshold,
        }
    }

    /// What it allows, for people: `<2 %`, `<=250 ms`.
    pub fn allowed(&self) -> String {
        format!("{}{}", self.operator.sign(), self.metric.shown(self.threshold))
    }

    /// What was measured beside what is allowed, for people: `errorRate 12.5 % (6 of 48 calls), allowed <2 %; base version 0.421 % (4 of 950
    /// calls)`.
    pub fn compared(&self, new: MeasuredValue, base: Option<MeasuredValue>) -> String {
        self.metric.words(new, base, &format!(", allowed {}", self.allowed()))
    }
}

/// What was measured of a version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredValue {
    /// In the unit of [`Condition::threshold`].
    pub value: f64,
    /// All calls of it; `None`: nobody counted them, and so of its errors.
    pub calls: Option<u64>,
    pub errors: Option<u64>,
}

impl MeasuredValue {
    /// With the calls of which it is: times are of those that succeeded.
    fn shown(self, metric: Metric) -> String {
        let value = metric.shown(self.value);
        match (metric, self.calls, self.errors) {
            (Metric::ErrorRate, Some(calls), Some(errors)) => format!("{value} ({errors} of {calls} calls)"),
            (Metric::ResponseTime(_), Some(calls), Some(errors)) => {
                format!("{value} ({} calls)", calls.saturating_sub(errors))
            }
            (_, Some(calls), None) => format!("{value} ({calls} calls)"),
            (_, None, _) => value,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Metric {
    ErrorRate,
    ResponseTime(Statistic),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Statistic {
    Median,
    Minimum,
    Maximum,
    /// Above 0 and below 1: `P95` is 0.95. Agents can't judge it, the manager does.
    Quantile(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

impl Operator {
    /// As it is written in a threshold.
    pub(super) const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Equal => "==",
        }
    }
}

/// As it is shown: `responseTime <=250 Median`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, threshold) = (self.operator.sign(), self.threshold);
        match self.metric {
            Metric::ErrorRate => write!(f, "errorRate {operator}{threshold}"),
            Metric::ResponseTime(statistic) => write!(f, "responseTime {operator}{threshold} {statistic}"),
        }
    }
}

/// As it is shown: `errorRate`, `responseTime Median`, `responseTime P95`.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ErrorRate => f.write_str("errorRate"),
            Self::ResponseTime(statistic) => write!(f, "responseTime {statistic}"),
        }
    }
}

/// As `compareWith` has it: `Median`, `P95`.
impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Median => f.write_str("Median"),
            Self::Minimum => f.write_str("Minimum"),
            Self::Maximum => f.write_str("Maximum"),
            Self::Quantile(q) => write!(f, "P{}", q * 100.0),
        }
    }
}

impl Metric {
    /// A value of it with its unit, for people: `12.5 %`, `312.4 ms`.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::ErrorRate => format!("{} %", rounded(value * 100.0, 2)),
            Self::ResponseTime(_) => format!("{} ms", rounded(value, 1)),
        }
    }

    /// What was measured where nothing is limited, for people: `errorRate 12.5 % (6 of 48 calls); base version 0.421 % (4 of 950 calls)`.
    pub fn compared(self, new: MeasuredValue, base: Option<MeasuredValue>) -> String {
        self.words(new, base, "")
    }

    fn words(self, new: MeasuredValue, base: Option<MeasuredValue>, allowed: &str) -> String {
        let base = base.map_or_else(String::new, |base| format!("; base version {}", base.shown(self)));
        format!("{self} {}{allowed}{base}", new.shown(self))
    }

    /// Whether only the manager can judge it.
    pub fn is_quantile(self) -> bool {
        matches!(self, Self::ResponseTime(Statistic::Quantile(_)))
    }
}

/// To so many decimals, or to three digits where that is more exact.
fn rounded(value: f64, decimals: i32) -> f64 {
    let of_three_digits = if value == 0.0 { 0 } else { 2 - value.abs().log10().floor() as i32 };
    let scale = 10_f64.powi(of_three_digits.clamp(decimals, 12));
    (value * scale).round() / scale
}
