//! What agents that judge by themselves may spend of a release's alpha.
//!
//! An agent that is led in place stops the new version where it is proven that a condition of a stage is broken. That is a
//! judgement of each agent, and all of them together are to stop a version that keeps its conditions with a small probability
//! only. So each has the same part of [`LOCAL_SHARE`] of the release's alpha, by Bonferroni's inequality, and each of its
//! stages the same part of that. What an agent does again, as another attempt, is judged anew: the k-th one has 6/(π²k²)
//! ([`part_of_the`]), so however often a release is tried again, a good version is stopped by mistake no more often than that.
//!
//! It is a tenth beside what analyses spend, and not of it: those ask whether the new version is worse than the base version,
//! at one place; these hold limits that the developer set, and to which a good version is rarely near. So a good release is
//! stopped by mistake with 1.1 times its alpha at most. To have a tenth and not all of it costs a limit little: where 2 % of
//! the calls may fail, a version that fails every call is stopped one call later at most.

use std::f64::consts::PI;

use super::{
    condition::{Condition, Metric, Operator, Statistic},
    strategy::{Stage, Strategy},
};

/// The part of a release's alpha that all its agents have together for limits.
pub const LOCAL_SHARE: f64 = 0.1;

/// The part of a limit's alpha that is for the whole stage; the rest is for windows that begin later.
pub const OF_WHOLE: f64 = 0.5;

/// The part of an alpha that the k-th of any number of judgements has, from 1: 6/(π²k²), of which the sum over all k is 1.
#[must_use]
pub fn part_of_the(k: u64) -> f64 {
    6.0 / (PI * k.max(1) as f64).powi(2)
}

impl Strategy {
    /// The probability with which an agent of so many may ever stop a version that keeps all conditions, over all its stages and all
    /// its attempts. What comes from above says it for those below.
    pub fn local_alpha(&self, agents: u64) -> f64 {
        let told = self.from_parent.as_ref().and_then(|said| said.local_alpha);
        told.unwrap_or_else(|| self.alpha() / (LOCAL_SHARE.recip() * agents.max(1) as f64))
    }

    /// The part of what is for one attempt that is for one stage.
    pub fn alpha_of_a_stage(&self, local_alpha: f64) -> f64 {
        local_alpha / judged(&self.stages) as f64
    }
}

/// Stages that agents judge, at least one.
pub(super) fn judged<'s>(stages: impl IntoIterator<Item = &'s Stage>) -> usize {
    let is_judged = |stage: &&Stage| stage.new_traffic > 0 && !stage.conditions.is_empty();
    stages.into_iter().filter(is_judged).count().max(1)
}

impl Stage {
    /// The part of an agent's alpha for this stage that is for one limit, over the whole stage; `None`: no condition is a limit
    /// of a share of the calls.
    pub fn alpha_of_a_limit(&self, alpha: f64) -> Option<f64> {
        let limits: usize = self.conditions.iter().map(|condition| condition.most_beyond().len()).sum();
        (limits > 0).then(|| alpha * OF_WHOLE / limits as f64)
    }
}

impl Condition {
    /// The share of calls that may be on its wrong side, from 0 to 1, for each side that it has: above the threshold first.
    /// Empty: one call breaks it, or none ever does.
    pub fn most_beyond(&self) -> Vec<f64> {
        let [above, below] = match self.metric {
            Metric::ErrorRate => [self.threshold, 1.0 - self.threshold],
            Metric::ResponseTime(Statistic::Median) => [0.5, 0.5],
            Metric::ResponseTime(Statistic::Quantile(q)) => [1.0 - q, q],
            Metric::ResponseTime(Statistic::Minimum | Statistic::Maximum) => return Vec::new(),
        };
        match self.operator {
            Operator::Less | Operator::LessOrEqual => vec![above],
            Operator::Greater | Operator::GreaterOrEqual => vec![below],
            Operator::Equal => vec![above, below],
        }
    }
}
