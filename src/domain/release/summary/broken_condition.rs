//! What a report shows of the conditions of its stage, in words.

use super::{Summary, times::quantile};
use language::{Condition, MeasuredValue, Metric, Stage, Statistic, analysis::Pair};

/// A condition that what was measured breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenCondition {
    /// Which of more than two variations broke it.
    pub variation: Option<String>,
    /// What was measured, of how many calls, what is allowed, and how the base version did: `errorRate 12.5 % (6 of 48 calls), allowed
    /// <2 %; base version 0.421 % (4 of 950 calls)`.
    pub numbers: String,
}

impl Summary {
    /// The first condition of the stage that a version which was tried in it breaks. `None`: by what was reported, each holds.
    pub fn broken_condition(&self, stage: &Stage) -> Option<BrokenCondition> {
        if self.variations.is_empty() {
            let numbers = self.broken_by_new(stage)?;
            return Some(BrokenCondition { variation: None, numbers });
        }
        let mut tried = self.variations.iter().zip(&stage.shares).skip(1).filter(|(_, share)| **share > 0);
        tried.find_map(|(one, _)| {
            let variation = Some(one.name.clone());
            let pair = Pair { baseline: None, canary: variation.clone() };
            let numbers = self.of_pair(&pair)?.broken_by_new(stage)?;
            Some(BrokenCondition { variation, numbers })
        })
    }

    /// What was measured of each condition of the stage, and of errors and times where none is about these: of each version that was tried, a
    /// line each.
    pub fn numbers(&self, stage: &Stage) -> Vec<String> {
        if self.variations.is_empty() {
            return self.numbers_of_new(stage);
        }
        let tried = self.variations.iter().zip(&stage.shares).skip(1).filter(|(_, share)| **share > 0);
        let numbers = tried.flat_map(|(one, _)| {
            let pair = Pair { baseline: None, canary: Some(one.name.clone()) };
            let numbers = self.of_pair(&pair).map(|pair| pair.numbers_of_new(stage)).unwrap_or_default();
            numbers.into_iter().map(move |numbers| format!("{}: {numbers}", one.name))
        });
        numbers.collect()
    }

    fn numbers_of_new(&self, stage: &Stage) -> Vec<String> {
        if self.has_no_calls() {
            return Vec::new();
        }
        let limited = stage
            .conditions
            .iter()
            .filter_map(|condition| Some(self.compared(condition, self.new_value(condition.metric)?)));
        let is_of_time = |metric: Metric| matches!(metric, Metric::ResponseTime(_));
        let others = [Metric::ErrorRate, Metric::ResponseTime(Statistic::Median)].into_iter();
        let others = others.filter(|metric| {
            let mut limits = stage.conditions.iter().map(|condition| condition.metric);
            !limits.any(|limited| is_of_time(limited) == is_of_time(*metric))
        });
        let others = others.filter_map(|metric| {
            Some(metric.compared(self.of_new(self.new_value(metric)?), self.of_base(metric)))
        });
        limited.chain(others).collect()
    }

    fn broken_by_new(&self, stage: &Stage) -> Option<String> {
        if self.has_no_calls() {
            return None;
        }
        stage.conditions.iter().find_map(|condition| {
            let value = self.new_value(condition.metric)?;
            (!condition.holds(value)).then(|| self.compared(condition, value))
        })
    }

    /// What is measured by a condition, in words, where the new version has this value of it.
    pub(super) fn compared(&self, condition: &Condition, value: f64) -> String {
        condition.compared(self.of_new(value), self.of_base(condition.metric))
    }

    fn of_new(&self, value: f64) -> MeasuredValue {
        MeasuredValue { value, calls: self.f2_calls, errors: self.f2_errors }
    }

    fn of_base(&self, metric: Metric) -> Option<MeasuredValue> {
        let value = self.base_value(metric)?;
        Some(MeasuredValue { value, calls: self.f1_calls, errors: self.f1_errors })
    }

    /// Of the new version; `None`: it is not known.
    fn new_value(&self, metric: Metric) -> Option<f64> {
        let times = self.f2_times_summary;
        let ms = match metric {
            Metric::ErrorRate => return Some(self.f2_err_rate),
            Metric::ResponseTime(Statistic::Median) => times.median,
            Metric::ResponseTime(Statistic::Minimum) => times.minimum,
            Metric::ResponseTime(Statistic::Maximum) => times.maximum,
            Metric::ResponseTime(Statistic::Quantile(q)) => return self.new_quantile(q),
        };
        Some(ms).filter(|ms| *ms >= 0.0)
    }

    /// Of the base version. Who doesn't count its errors says that there were none.
    fn base_value(&self, metric: Metric) -> Option<f64> {
        let times = self.f1_times_summary;
        let ms = match metric {
            Metric::ErrorRate => {
                let [calls, errors] = [self.f1_calls?, self.f1_errors?];
                return (calls > 0).then(|| errors as f64 / calls as f64);
            }
            Metric::ResponseTime(Statistic::Median) => times.median,
            Metric::ResponseTime(Statistic::Minimum) => times.minimum,
            Metric::ResponseTime(Statistic::Maximum) => times.maximum,
            Metric::ResponseTime(Statistic::Quantile(q)) => {
                return quantile(self.f1_values.as_deref(), self.f1_histogram.as_deref(), q);
            }
        };
        Some(ms).filter(|ms| *ms >= 0.0)
    }
}
