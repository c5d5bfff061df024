//! What children reported of their stages, as measurements.
//!
//! Each child and stage is a stratum of its own: nothing of one child is compared with anything of another. Whoever
//! counts no calls says nothing of the base version's errors, and whoever keeps no histogram nothing of how times are
//! spread: that is no data, and neither 0 nor a pass.

use std::{collections::BTreeMap, ops::Range};

use serde_json::json;

use super::{agenda::Due, threshold};
use crate::{
    analysis::{Counts, Histogram, Sample, Stratum, Verdict},
    engine::Engine,
    model::{ChildKey, StageStatus},
    release::{
        analysis::Metered,
        assignment::Slot,
        summary::{Histogram as Reported, Summary, Times},
        upstream::aggregate,
    },
    store::rows::StageResultRow,
    strategy::{
        Strategy,
        analysis::{ChildMetric, Metric, Rule},
    },
};

/// Children whose results are read at once.
const SLICE: usize = 2_000;

/// The ratio of the ends of a bucket in which reported buckets are spread: values are known to half a percent.
const GAMMA: f64 = 1.01;

/// Buckets over which one reported bucket is spread at most.
const MAX_SPREAD: i64 = 2_000;

/// What one child reported of one stage.
#[derive(Debug)]
pub(super) struct Report {
    child: ChildKey,
    slot: Slot,
    summary: Summary,
}

/// The latest report of each child, of one slot or of every stage; or only those that became final in a time, in
/// milliseconds since 1970.
pub(super) async fn read(
    engine: &Engine,
    due: &Due,
    members: &[ChildKey],
    slot: Option<Slot>,
    final_in: Option<Range<i64>>,
) -> Result<Vec<Report>, String> {
    let mut latest: BTreeMap<(ChildKey, Slot), Summary> = BTreeMap::new();
    for some in members.chunks(SLICE) {
        let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
        let rows = engine.reader().stage_results(due.release.0, first.0, last.0).await;
        let rows = rows.map_err(|error| {
            tracing::warn!(%error, release = due.id, "the results of children can't be read");
            "the store does not give what children reported".to_owned()
        })?;
        for row in rows {
            let (child, Ok(of)) = (ChildKey(row.child_key), u8::try_from(row.stage).map(Slot)) else {
                continue;
            };
            let is_meant = slot.map_or_else(|| of.stage_index().is_some(), |slot| slot == of);
            if !is_meant || some.binary_search(&child).is_err() || !counts(&row, final_in.as_ref()) {
                continue;
            }
            // They come in the order of attempts.
            if let Ok(summary) = serde_json::from_str::<Summary>(&row.summary) {
                latest.insert((child, of), summary);
            }
        }
    }
    let report = |((child, slot), summary)| Report { child, slot, summary };
    Ok(latest.into_iter().map(report).collect())
}

/// Both versions side by side, child by child.
pub(super) fn strata(reports: &[Report], of: ChildMetric, strategy: &Strategy) -> Vec<Stratum> {
    reports.iter().filter_map(|report| stratum(report, of, strategy)).collect()
}

fn stratum(report: &Report, of: ChildMetric, strategy: &Strategy) -> Option<Stratum> {
    let Report { child, slot, summary } = report;
    let stage = slot.stage_index().and_then(|stage| strategy.stages.get(stage));
    let (baseline, canary) = match of {
        ChildMetric::ErrorRate => {
            let counts = |calls: Option<u64>, events: Option<u64>| {
                Some(Sample::Counts(Counts { calls: calls?, events: events? }))
            };
            let baseline = counts(summary.f1_calls, summary.f1_errors)?;
            (baseline, counts(summary.f2_calls, summary.f2_errors)?)
        }
        ChildMetric::ResponseTime => (
            Sample::Histogram(spread(summary.f1_histogram.as_deref()?, summary.f1_times_summary)?),
            Sample::Histogram(spread(summary.f2_histogram.as_deref()?, summary.f2_times_summary)?),
        ),
    };
    let name = format!("{}, child {}", stage.map_or("roll-out", |stage| stage.name.as_str()), child.0);
    // Times are of successful calls: only where all were, their numbers are those of the split.
    let is_whole = summary.f1_calls == Some(baseline.count()) && summary.f2_calls == Some(canary.count());
    let found = Stratum::new(name, 0, baseline, canary);
    let share = stage.map(|stage| f64::from(stage.new_traffic) / 100.0);
    Some(match share.filter(|share| is_whole && *share > 0.0 && *share < 1.0) {
        Some(share) => found.ordered(share),
        None => found,
    })
}

/// Reported buckets, each spread evenly over those of a form that all children share.
fn spread(reported: &Reported, times: Times) -> Option<Histogram> {
    let index = |value: f64| (value.ln() / GAMMA.ln()).floor() as i64;
    let mut zeros = 0_u64;
    let mut bins: BTreeMap<i64, u64> = BTreeMap::new();
    let ends = reported.bounds_ms.iter().copied().chain([f64::INFINITY]);
    let mut low = 0.0_f64;
    for (high, count) in ends.zip(&reported.counts) {
        let (from, to) = (low.max(times.minimum), high.min(times.maximum));
        low = high;
        if *count == 0 {
            continue;
        }
        if !(to.is_finite() && to > 0.0) {
            zeros += count;
            continue;
        }
        let from = if from > 0.0 && from < to { from } else { to };
        let (first, last) = (index(from), index(to));
        let cells = (last - first + 1).clamp(1, MAX_SPREAD);
        let part = |cell: i64| (u128::from(*count) * cell as u128 / cells as u128) as u64;
        for cell in 0..cells {
            *bins.entry(first + cell).or_default() += part(cell + 1) - part(cell);
        }
    }
    bins.retain(|_, count| *count > 0);
    let form =
        json!({"mapping": {"gamma": GAMMA}, "positiveValues": {"binCounts": bins}, "zeroCount": zeros});
    serde_json::from_value(form).ok()
}

/// One measurement of the new version over all children.
pub(super) fn measure(reports: &[Report], of: ChildMetric, metric: &Metric, mut found: Metered) -> Metered {
    let Rule::Threshold { min, max, quantile } = metric.rule else { return found };
    let called = |summary: &&Summary| summary.f2_times_summary.median >= 0.0 || summary.f2_err_rate > 0.0;
    let summaries: Vec<Summary> =
        reports.iter().map(|report| &report.summary).filter(called).cloned().collect();
    let value = value(&summaries, of, quantile);
    let range = threshold::Range { min, max, failure_limit: metric.failure_limit };
    range.measure(&mut found, value.as_slice(), true);
    found.sentence = match (found.verdict, value) {
        (Some(Verdict::NoData), _) | (_, None) => "no child reported a call that tells".to_owned(),
        (_, Some(_)) => format!("over {} reports of children, {}", summaries.len(), found.sentence),
    };
    found
}

fn value(summaries: &[Summary], of: ChildMetric, quantile: Option<f64>) -> Option<f64> {
    if summaries.is_empty() {
        return None;
    }
    let all = aggregate(StageStatus::Completed, summaries);
    match (of, quantile) {
        (ChildMetric::ErrorRate, _) => match (all.f2_errors, all.f2_calls) {
            (Some(errors), Some(calls)) if calls > 0 => Some(errors as f64 / calls as f64),
            _ => Some(all.f2_err_rate),
        },
        (ChildMetric::ResponseTime, Some(quantile)) => all.f2_histogram.as_ref()?.quantile(quantile),
        (ChildMetric::ResponseTime, None) => {
            Some(all.f2_times_summary.median).filter(|median| *median >= 0.0)
        }
    }
}

impl Report {
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

fn counts(row: &StageResultRow, final_in: Option<&Range<i64>>) -> bool {
    let status = u64::try_from(row.status).ok().and_then(StageStatus::from_wire);
    final_in.is_none_or(|time| time.contains(&row.at_ms) && status.is_some_and(StageStatus::is_over))
}
