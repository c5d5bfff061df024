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

    /// What it demands, as the developer wrote it: `<=250`.
    pub fn demand(&self) -> String {
        let operator = match self.operator {
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Equal => "==",
        };
        format!("{operator}{}", self.threshold)
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

/// As it is shown: `responseTime <=250 Median`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Equal => "==",
        };
        let threshold = self.threshold;
        match self.metric {
            Metric::ErrorRate => write!(f, "errorRate {operator}{threshold}"),
            Metric::ResponseTime(Statistic::Median) => write!(f, "responseTime {operator}{threshold} Median"),
            Metric::ResponseTime(Statistic::Minimum) => {
                write!(f, "responseTime {operator}{threshold} Minimum")
            }
            Metric::ResponseTime(Statistic::Maximum) => {
                write!(f, "responseTime {operator}{threshold} Maximum")
            }
            Metric::ResponseTime(Statistic::Quantile(q)) => {
                write!(f, "responseTime {operator}{threshold} P{}", q * 100.0)
            }
        }
    }
}

impl Metric {
    /// Whether only the manager can judge it.
    pub fn is_quantile(self) -> bool {
        matches!(self, Self::ResponseTime(Statistic::Quantile(_)))
    }
}
