//! What an earlier release tells of what is to be expected.

use crate::release::{
    measured,
    strata::{Sides, Strata},
    summary::Summary,
};
use analysis::{Counts, Stratum, Values, power::Among};
use language::analysis::{Analysis, Metric, MetricSource, ProviderQuery};

/// Fewer calls tell nothing.
const LEAST_CALLS: u64 = 100;

/// What children did in a stage of an earlier release.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The id of that release.
    pub release: String,
    /// Of the base version.
    times: Option<Values>,
    counts: Option<Counts>,
    /// How children differed, in times and in errors.
    among: [Option<Among>; 2],
    /// Of those that measured both versions, as a share of all agents: a manager that says nothing of its agents is one.
    told: f64,
    /// Calls of both versions that one agent has in a second.
    pub(super) calls_per_second: Option<f64>,
}

impl Observed {
    /// Of what children reported of a stage that took `seconds`.
    pub fn of(release: &str, reports: &[Summary], new_traffic: u8, seconds: f64) -> Self {
        let Sides { counts, times } = Strata::of(reports, new_traffic).total();
        let agents: u64 = reports.iter().map(agents_of).sum();
        let told = measured::effects(reports, new_traffic).unwrap_or_default();
        let tells = |report: &Summary| report.effects.is_some_and(|effects| effects.has_estimates());
        let known: u64 = reports.iter().map(|report| if tells(report) { agents_of(report) } else { 1 }).sum();
        let calls = counts.map(|sides| sides.iter().map(|side| side.calls).sum::<u64>());
        let calls = calls.filter(|calls| *calls > 0 && agents > 0 && seconds > 0.0);
        let timed = times.as_ref().map(|sides| sides.each_ref().map(Values::count));
        let counted = counts.map(|sides| sides.map(|side| side.calls));
        let among = |effects: Option<_>, calls: Option<_>| Among::observed(&effects?, calls?);
        Self {
            release: release.to_owned(),
            times: times.map(|[base, _]| base),
            counts: counts.map(|[base, _]| base).filter(|base| base.calls >= LEAST_CALLS),
            among: [among(told.times, timed), among(told.errors, counted)],
            told: if agents > 0 { known as f64 / agents as f64 } else { 1.0 },
            calls_per_second: calls.map(|calls| calls as f64 / agents as f64 / seconds),
        }
    }

    /// In words, what numbers rest on that are taken from it.
    pub fn basis(&self) -> String {
        format!("release {}", self.release)
    }

    /// The base version's rate of errors, and on what it rests. Half an event more than was seen: none of few calls doesn't
    /// mean that there are none.
    pub(super) fn errors(&self) -> Option<(f64, String)> {
        let rate = |base: Counts| (base.events as f64 + 0.5) / (base.calls as f64 + 1.0);
        Some((rate(self.counts?), self.basis()))
    }

    /// The base version's times, where there are enough of them.
    pub(super) fn times(&self) -> Option<&Values> {
        self.times.as_ref().filter(|times| times.count() >= LEAST_CALLS)
    }

    /// How so many agents will differ.
    pub(super) fn among(&self, is_errors: bool, agents: u64) -> Option<Among> {
        let children = (agents as f64 * self.told).round().max(1.0) as u64;
        Some(self.among[usize::from(is_errors)].clone()?.of(children))
    }

    /// The share of times that break a threshold; `or_equal`: at it they don't.
    pub(super) fn beyond(&self, threshold: f64, or_equal: bool) -> Option<f64> {
        let times = self.times()?;
        let above: f64 = match times.exact() {
            Some(pairs) => {
                let is_beyond = |value: f64| value > threshold || (!or_equal && value >= threshold);
                pairs.iter().filter(|(value, _)| is_beyond(*value)).map(|(_, count)| *count as f64).sum()
            }
            None => times.to_histogram().buckets().map(|bucket| part_above(bucket, threshold)).sum(),
        };
        Some(above / times.count() as f64)
    }
}

fn part_above((low, high, count): (f64, f64, u64), threshold: f64) -> f64 {
    let part = if threshold <= low {
        1.0
    } else if threshold >= high {
        0.0
    } else {
        (high - threshold) / (high - low)
    };
    part * count as f64
}

fn agents_of(report: &Summary) -> u64 {
    report.agents.map_or(1, |agents| u64::from(agents.participants))
}

/// What an earlier release measured by a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The id of that release.
    pub release: String,
    /// The stage that it judged; `None`: the release.
    pub stage: Option<String>,
    pub metric: Metric,
    /// Between two looks at it.
    pub interval: std::time::Duration,
    pub strata: Vec<Stratum>,
    pub elapsed_ms: u64,
}

impl Measured {
    /// Of a metric of an earlier block.
    pub fn of(
        release: &str,
        stage: Option<String>,
        analysis: &Analysis,
        metric: &Metric,
        strata: Vec<Stratum>,
        elapsed_ms: u64,
    ) -> Self {
        let interval = analysis.interval_of(metric);
        Self { release: release.to_owned(), stage, metric: metric.clone(), interval, strata, elapsed_ms }
    }

    /// Whether it answers the same question, asked in the same words and as often.
    pub(super) fn is_of(
        &self,
        stage: Option<&str>,
        asked: &ProviderQuery,
        interval: std::time::Duration,
    ) -> bool {
        let MetricSource::Query(then) = &self.metric.source else { return false };
        self.stage.as_deref() == stage
            && self.interval == interval
            && (&then.provider, &then.query, &then.json_path)
                == (&asked.provider, &asked.query, &asked.json_path)
    }

    /// Points of both versions in a second.
    pub(super) fn points_per_second(&self) -> Option<f64> {
        let points: u64 =
            self.strata.iter().map(|stratum| stratum.baseline.count() + stratum.canary.count()).sum();
        // One version alone was measured half as often as two will be.
        let sides = [
            self.strata.iter().any(|stratum| stratum.baseline.count() > 0),
            self.strata.iter().any(|stratum| stratum.canary.count() > 0),
        ];
        let twice = if sides == [true, true] { 1.0 } else { 2.0 };
        let seconds = self.elapsed_ms as f64 / 1e3;
        (points > 0 && seconds > 0.0).then(|| twice * points as f64 / seconds)
    }
}
