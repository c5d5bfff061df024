//! What a condition demands, as a limit that can be proven to be broken.

use std::time::Duration;

use analysis::{
    Counts,
    limit_evidence::{self, hits, ln_evidence},
};
use language::{Condition, Metric, Operator, Statistic};
use model::duration::show_millis;
use serde::{Deserialize, Serialize};

use super::Breach;
use crate::measure::StageCounts;

/// One side of a condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Limit {
    /// Its index in the stage.
    at: usize,
    /// The version that is held to it, by its index: the new one of a function is 1.
    #[serde(default = "new_version")]
    of: usize,
    condition: Condition,
    /// Whether the threshold is the most that may be, and not the least.
    is_most: bool,
    /// The share of calls that may be on its wrong side; `None`: it is broken by one call, or never.
    most: Option<f64>,
}

/// What is counted of a limit of a share.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct LimitCounts {
    /// Calls that have ended.
    pub calls: u64,
    /// Calls on the wrong side.
    pub hits: u64,
    /// Calls that go on. None of them is taken for one on the wrong side: where errors are fast and answers slow, the calls
    /// that have ended are mostly errors.
    pub pending: u64,
}

impl Limit {
    /// The sides that a condition has.
    pub fn of(version: usize, (at, condition): (usize, &Condition)) -> Vec<Self> {
        let sides: &[bool] = match condition.operator {
            Operator::Less | Operator::LessOrEqual => &[true],
            Operator::Greater | Operator::GreaterOrEqual => &[false],
            Operator::Equal => &[true, false],
        };
        let most = condition.most_beyond();
        let side = |(which, is_most): (usize, &bool)| Self {
            at,
            of: version,
            condition: condition.clone(),
            is_most: *is_most,
            most: most.get(which).copied(),
        };
        sides.iter().enumerate().map(side).collect()
    }

    fn bound(&self) -> limit_evidence::Limit {
        let limit = if self.is_most { limit_evidence::Limit::AtMost } else { limit_evidence::Limit::AtLeast };
        limit(self.condition.threshold)
    }

    /// How many calls there are of those that it limits, and how many on its wrong side.
    pub fn counted(&self, counts: &StageCounts) -> LimitCounts {
        let (new, pending) = (counts.judged(self.of), counts.in_flight_of(self.of));
        let q = match self.condition.metric {
            Metric::ErrorRate => {
                let [calls, failed] = new.with_no_target();
                let hits = if self.is_most { failed } else { calls - failed };
                return LimitCounts { calls, hits, pending };
            }
            Metric::ResponseTime(Statistic::Median) => 0.5,
            Metric::ResponseTime(Statistic::Quantile(q)) => q,
            Metric::ResponseTime(Statistic::Minimum | Statistic::Maximum) => return LimitCounts::default(),
        };
        let counted = |values| {
            let (counts, _) = hits(&values, q, self.bound());
            LimitCounts { calls: counts.calls, hits: counts.events, pending }
        };
        new.times.to_values().map_or_else(|_| LimitCounts::default(), counted)
    }

    /// Whether what was counted since then, or in all, proves that it is broken, but for a probability `alpha`.
    pub fn broken(
        &self,
        counted: LimitCounts,
        alpha: f64,
        since: Option<Duration>,
        counts: &StageCounts,
    ) -> Option<Breach> {
        let LimitCounts { calls, hits, pending } = counted;
        let begun = Counts { calls: calls + pending, events: hits };
        let evidence = ln_evidence(begun, limit_evidence::Limit::AtMost(self.most?));
        if evidence < -alpha.ln() {
            return None;
        }
        let what = self.hit(counts.judged(self.of).no_target);
        let since = since.map_or_else(String::new, |since| {
            format!(" since {} into the stage", show_millis(since.as_secs() * 1_000))
        });
        let chance = (-evidence).exp();
        let doubt = if chance > 0.0 {
            format!(", which a version that keeps it shows with a probability of {chance:.1e} at most")
        } else {
            String::new()
        };
        let (condition, whose) = (&self.condition, self.whose(counts));
        let text = format!("{condition} is broken: {hits} of {calls} calls of {whose}{since} {what}{doubt}");
        Some(Breach { condition: self.at, text })
    }

    /// Of which version, in words: where there are more than two, by its name.
    fn whose(&self, counts: &StageCounts) -> String {
        let name = counts.names().get(self.of).filter(|_| counts.names().len() > 2);
        name.map_or_else(|| "the new version".to_owned(), |name| format!("variation {name}"))
    }

    /// What calls on the wrong side do. `no_target`: so many found no target in the whole stage.
    fn hit(&self, no_target: u64) -> String {
        let threshold = self.condition.threshold;
        match (self.condition.metric, self.is_most) {
            (Metric::ErrorRate, true) if no_target > 0 => {
                format!("failed or found no target ({no_target} in all)")
            }
            (Metric::ErrorRate, true) => "failed".to_owned(),
            (Metric::ErrorRate, false) => "did not fail".to_owned(),
            (Metric::ResponseTime(_), true) => format!("took more than {threshold} ms"),
            (Metric::ResponseTime(_), false) => format!("took less than {threshold} ms"),
        }
    }

    /// Whether one call broke it, so that it can't hold at the end.
    pub fn broken_by_one(&self, counts: &StageCounts) -> Option<Breach> {
        let new = counts.judged(self.of);
        let extreme = match (self.condition.metric, self.is_most) {
            (Metric::ResponseTime(Statistic::Maximum), true) => new.summary().maximum,
            (Metric::ResponseTime(Statistic::Minimum), false) => new.summary().minimum,
            (Metric::ResponseTime(_) | Metric::ErrorRate, _) => return None,
        };
        let threshold = self.condition.threshold;
        let keeps = match self.condition.operator {
            Operator::Less => extreme < threshold,
            Operator::Greater => extreme > threshold,
            Operator::LessOrEqual | Operator::GreaterOrEqual | Operator::Equal => {
                if self.is_most {
                    extreme <= threshold
                } else {
                    extreme >= threshold
                }
            }
        };
        if new.times.is_empty() || keeps {
            return None;
        }
        let (condition, whose) = (&self.condition, self.whose(counts));
        let text = format!("{condition} is broken: a call of {whose} took {extreme} ms");
        Some(Breach { condition: self.at, text })
    }
}

fn new_version() -> usize {
    1
}
