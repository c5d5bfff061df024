//! What children reported of their stages, as measurements.
//!
//! Numbers are added up within a stratum (`release::strata`) and never across. Whoever counts no calls says nothing of the base
//! version's errors, and whoever keeps no histogram nothing of how times are spread: that is no data, and neither 0 nor a
//! pass.

use std::{collections::BTreeMap, ops::Range};

use super::{agenda::Due, threshold};
use crate::{
    analysis::{
        Sample, Stratum, Verdict,
        split::{ChildSplit, Split},
    },
    engine::Engine,
    model::{ChildKey, ReleaseKey, StageStatus},
    release::{
        analysis::Metered, assignment::Slot, measured, strata::Strata, summary::Summary, upstream::aggregate,
    },
    store::rows::StageResultRow,
    strategy::{
        Stage, Strategy,
        analysis::{ChildMetric, Metric, Rule},
        check_stored,
    },
};

/// Children whose results are read at once.
const SLICE: usize = 2_000;

/// Most children of which is shown that their calls were not shared out as ordered, and how many standard deviations it takes.
const MOST_SHOWN: usize = 5;
const DEVIATIONS_SHOWN: f64 = 4.0;

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
    of_release(engine, due.release, members, slot, final_in).await
}

async fn of_release(
    engine: &Engine,
    release: ReleaseKey,
    members: &[ChildKey],
    slot: Option<Slot>,
    final_in: Option<Range<i64>>,
) -> Result<Vec<Report>, String> {
    let mut latest: BTreeMap<(ChildKey, Slot), Summary> = BTreeMap::new();
    for some in members.chunks(SLICE) {
        let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
        let rows = engine.reader().stage_results(release.0, first.0, last.0).await;
        let rows = rows.map_err(|error| {
            tracing::warn!(%error, release = release.0, "the results of children can't be read");
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
            let Ok(summary) = serde_json::from_str::<Summary>(&row.summary) else { continue };
            // A manager's later waves report the earlier ones once more: what is added to would count twice.
            let says_again = summary.agents.is_some() && row.attempt > 1 && final_in.is_some();
            if !says_again {
                // They come in the order of attempts.
                latest.insert((child, of), summary);
            }
        }
    }
    let report = |((child, slot), summary)| Report { child, slot, summary };
    Ok(latest.into_iter().map(report).collect())
}

/// Both versions side by side, stage by stage, and under each split and in each interval that children told apart.
pub(super) fn strata(reports: &[Report], of: ChildMetric, strategy: &Strategy) -> Vec<Stratum> {
    let mut stages: BTreeMap<usize, Vec<&Summary>> = BTreeMap::new();
    for report in reports {
        if let Some(stage) = report.slot.stage_index() {
            stages.entry(stage).or_default().push(&report.summary);
        }
    }
    let stages = stages.into_iter().filter_map(|(at, summaries)| Some((strategy.stages.get(at)?, summaries)));
    let found = stages.flat_map(|(stage, summaries)| {
        measured::judged(stage, &Strata::of(summaries, stage.new_traffic), of)
    });
    // All are looked at once: their order alone counts.
    (0..).zip(found).map(|(interval, found)| Stratum { interval, ..found }).collect()
}

/// The new version of now beside the one of an earlier release, child by child: of those who reported both times, each a
/// stratum of its own. `Ok(None)`: the store has that release no more.
pub(super) async fn strata_since(
    engine: &Engine,
    earlier: &str,
    reports: &[Report],
    of: ChildMetric,
    strategy: &Strategy,
) -> Result<Option<Vec<Stratum>>, String> {
    let row = engine.reader().release(earlier).await.map_err(|error| {
        tracing::warn!(%error, release = earlier, "an earlier release can't be read");
        "the store does not give the earlier release".to_owned()
    })?;
    let before = row.and_then(|row| Some((row.release_key, check_stored(&row.strategy).strategy?)));
    let Some((key, before)) = before else { return Ok(None) };
    let mut members: Vec<ChildKey> = reports.iter().map(|report| report.child).collect();
    members.sort_unstable();
    members.dedup();
    let earlier = of_release(engine, ReleaseKey(key), &members, None, None).await?;
    let earlier: BTreeMap<(ChildKey, &str), &Report> = earlier
        .iter()
        .filter_map(|report| Some(((report.child, report.stage(&before)?.name.as_str()), report)))
        .collect();
    let pairs = reports.iter().filter_map(|report| {
        let stage = report.stage(strategy)?;
        let other = earlier.get(&(report.child, stage.name.as_str()))?;
        let [baseline, canary] = [other.new_version(&before, of)?, report.new_version(strategy, of)?];
        Some((format!("{}, child {}", stage.name, report.child.0), baseline, canary))
    });
    // All are looked at once: their order alone counts.
    let strata =
        (0..).zip(pairs).map(|(at, (name, baseline, canary))| Stratum::new(name, at, baseline, canary));
    Ok(Some(strata.collect()))
}

/// Adds the children whose calls were shared out furthest from what was ordered to what is shown of the split. Nothing is
/// judged by it.
pub(super) fn show_splits(found: &mut Metered, engine: &Engine, reports: &[Report], strategy: &Strategy) {
    let split = found.evidence.as_mut().and_then(|evidence| evidence.split.as_mut());
    let Some(evidence) = split else { return };
    let of = |report: &Report| -> Option<(ChildKey, Split)> {
        let stage = report.stage(strategy)?;
        let strata = Strata::of([&report.summary], stage.new_traffic);
        let splits = strata.iter().filter_map(|(key, sides)| {
            let [baseline, canary] = sides.counts?.map(|side| side.calls);
            Some(Split { share: f64::from(key.split) / 100.0, baseline, canary })
        });
        let most = splits.max_by(|a, b| a.z().abs().total_cmp(&b.z().abs()))?;
        (most.z().abs() > DEVIATIONS_SHOWN).then_some((report.child, most))
    };
    let mut off: Vec<(ChildKey, Split)> = reports.iter().filter_map(of).collect();
    off.sort_by(|(_, a), (_, b)| b.z().abs().total_cmp(&a.z().abs()));
    evidence.children = off
        .into_iter()
        .take(MOST_SHOWN)
        .filter_map(|(child, split)| {
            let child = engine.view().entry(child)?.id.to_string();
            Some(ChildSplit { child, split, z: split.z() })
        })
        .collect();
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

    fn stage<'s>(&self, strategy: &'s Strategy) -> Option<&'s Stage> {
        strategy.stages.get(self.slot.stage_index()?)
    }

    /// What it says of the new version, if that can be compared.
    fn new_version(&self, strategy: &Strategy, of: ChildMetric) -> Option<Sample> {
        let total = Strata::of([&self.summary], self.stage(strategy)?.new_traffic).total();
        match of {
            ChildMetric::ErrorRate => total.counts.map(|[_, new]| Sample::Counts(new)),
            ChildMetric::ResponseTime => total.times.map(|[_, new]| Sample::Histogram(new)),
        }
    }
}

fn counts(row: &StageResultRow, final_in: Option<&Range<i64>>) -> bool {
    let status = u64::try_from(row.status).ok().and_then(StageStatus::from_wire);
    final_in.is_none_or(|time| time.contains(&row.at_ms) && status.is_some_and(StageStatus::is_over))
}
