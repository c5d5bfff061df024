//! What was counted of one version.

use std::{collections::BTreeMap, sync::LazyLock};

use analysis::Values;
use call_metrics::{Tally, Times};
use language::{MeasuredValue, Metric, Statistic};
use protocol::{TimesForm, child::NO_CALL};
use serde::{Deserialize, Serialize};

/// Microseconds of a millisecond.
pub(super) const US_OF_MS: f64 = 1_000.0;

/// What was counted of one version; see [`super`] for what is a call and what an error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Side {
    pub calls: u64,
    pub errors: u64,
    /// Of the errors, the calls that the base version carried out afterwards.
    pub repeated: u64,
    /// Calls beside these that went to the base version at once, since this one failed too many.
    pub passed_over: u64,
    /// Calls beside these that the router refused, since it took none of this version's targets to be there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub no_target: u64,
    /// Of the calls without an error.
    pub times: Times,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Side {
    pub(super) fn is_empty(&self) -> bool {
        self.calls == 0 && self.passed_over == 0 && self.no_target == 0
    }

    pub(super) fn add(&mut self, tally: &Tally) {
        self.calls += tally.succeeded + tally.client_errors + tally.failures();
        self.errors += tally.failures();
        self.repeated += tally.repeated;
        self.passed_over += tally.passed_over;
        self.no_target += tally.no_target;
        self.times.merge(&tally.times);
        self.times.merge(&tally.client_error_times);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.repeated += other.repeated;
        self.passed_over += other.passed_over;
        self.no_target += other.no_target;
        self.times.merge(&other.times);
    }

    /// Share of the calls that are errors, from 0 to 1; of no calls 0.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.errors as f64 / self.calls as f64 }
    }

    /// Calls that a limit of errors is held against, and those of them that failed or found no target.
    pub(crate) fn with_no_target(&self) -> [u64; 2] {
        [self.calls, self.errors].map(|number| number + self.no_target)
    }

    /// Times of the calls without an error, in milliseconds: exactly while there are few, the median to half a percent from
    /// then on.
    #[must_use]
    pub fn summary(&self) -> TimesForm {
        summary_of(&self.times)
    }

    /// What a condition on this is held against: a share, or milliseconds, -1 where no call had a time.
    pub(super) fn value_of(&self, metric: Metric) -> f64 {
        let summary = || self.summary();
        match metric {
            Metric::ErrorRate => {
                let [calls, failed] = self.with_no_target();
                if calls == 0 { 0.0 } else { failed as f64 / calls as f64 }
            }
            Metric::ResponseTime(Statistic::Median) => summary().median,
            Metric::ResponseTime(Statistic::Minimum) => summary().minimum,
            Metric::ResponseTime(Statistic::Maximum) => summary().maximum,
            Metric::ResponseTime(Statistic::Quantile(q)) => quantile(&self.times, q).unwrap_or(NO_CALL),
        }
    }

    /// The same with its calls, for people; `None`: nothing of it was measured.
    pub(super) fn measured(&self, metric: Metric) -> Option<MeasuredValue> {
        let [calls, errors] = match metric {
            Metric::ErrorRate => self.with_no_target(),
            Metric::ResponseTime(_) => [self.calls, self.errors],
        };
        let value = self.value_of(metric);
        let is_measured = calls > 0 && value >= 0.0;
        is_measured.then_some(MeasuredValue { value, calls: Some(calls), errors: Some(errors) })
    }

    /// The times as a judgement takes them; `None`: there are none, or not of all calls without an error.
    pub(crate) fn values(&self) -> Option<Values> {
        let is_whole = !self.times.is_empty() && self.times.count() == self.calls - self.errors;
        self.times.to_values().ok().filter(|_| is_whole)
    }
}

/// Times in milliseconds; -1 where there are none.
pub(super) fn summary_of(times: &Times) -> TimesForm {
    let (Some([least, most]), Some(median)) = (times.range_us(), quantile(times, 0.5)) else {
        return TimesForm::NONE;
    };
    let [minimum, maximum] = [least, most].map(|us| f64::from(us) / US_OF_MS);
    TimesForm { median: median.clamp(minimum, maximum), minimum, maximum }
}

/// The time within which a share of the calls was answered, in milliseconds.
fn quantile(times: &Times, q: f64) -> Option<f64> {
    if let Some(us) = times.exact() {
        let rank = ((q.clamp(0.0, 1.0) * us.len() as f64).ceil() as usize).max(1);
        return us.get(rank - 1).map(|us| f64::from(*us) / US_OF_MS);
    }
    times.to_histogram().ok()?.quantile(q)
}

/// What was counted of each version, the base version first. One that had no call may have no place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Sides(Vec<Side>);

/// What was counted where nothing was.
static NOTHING: LazyLock<Side> = LazyLock::new(Side::default);

impl Sides {
    pub fn of(&self, which: usize) -> &Side {
        self.0.get(which).unwrap_or(&NOTHING)
    }

    pub fn of_mut(&mut self, which: usize) -> &mut Side {
        if self.0.len() <= which {
            self.0.resize_with(which + 1, Side::default);
        }
        &mut self.0[which]
    }

    pub fn merge(&mut self, more: &Self) {
        more.0.iter().enumerate().for_each(|(which, more)| self.of_mut(which).merge(more));
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Side::is_empty)
    }

    /// Calls of all of them.
    pub fn calls(&self) -> u64 {
        self.0.iter().map(|side| side.calls).sum()
    }
}

/// Calls by the group of their users.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Groups(pub BTreeMap<u8, Sides>);

impl Groups {
    /// Adds what was counted of one version, by its index: the base version is the first.
    pub fn add(&mut self, which: usize, more: &call_metrics::Groups) {
        let counted = more.calls.iter().zip(&more.failures);
        for (group, (calls, failures)) in (0_u8..).zip(counted).filter(|(_, (calls, _))| **calls > 0) {
            let side = self.0.entry(group).or_default().of_mut(which);
            side.calls += calls;
            side.errors += failures;
            if let Some(times) = more.times.get(usize::from(group)) {
                side.times.merge(times);
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (group, sides) in &other.0 {
            self.0.entry(*group).or_default().merge(sides);
        }
    }
}
