//! What children reported of their stages, as measurements.
//!
//! Numbers are added up within a stratum (`release::strata`) and never across. Whoever counts no calls says nothing of the base
//! version's errors, and whoever keeps no histogram nothing of how times are spread: that is no data, and neither 0 nor a
//! pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use super::{due_looks::DueLook, missing_rows::explain_unread, threshold};
use crate::{Engine, json_columns};
use analysis::{Assignment, Sample, Stratum, Verdict};
use domain::release::{
    analysis::Metered, assignment::StepIndex, measured, parent::aggregate, state::Snapshot, strata::Strata,
    summary::Summary,
};
use language::{
    Stage, Strategy,
    analysis::{ChildMetric, Metric, Pair, Rule},
};
use model::{ChildKey, ReleaseKey, StageStatus};
use store::{StoreError, rows::StageResultRow};

/// Children that are looked at, and whose results are read, at once.
const SLICE: usize = 2_000;

/// How long the engine may take to say who they are.
const PATIENCE: Duration = Duration::from_secs(30);

/// What one child reported of one stage.
#[derive(Debug)]
pub(super) struct StageReport {
    child: ChildKey,
    slot: StepIndex,
    summary: Summary,
}

/// Some of those whose reports count, in order of key; and after whom to go on, if there may be more.
pub(super) async fn find_members(
    engine: &Engine,
    due: &DueLook,
    after: Option<ChildKey>,
) -> Result<(Vec<ChildKey>, Option<ChildKey>), String> {
    let (release, whose) = (due.release, due.whose);
    let some = move |state: &Snapshot| state.release(release).map(|found| whose.some(found, after, SLICE));
    match engine.read(PATIENCE, some).await {
        Ok(some) => Ok(some.unwrap_or_default()),
        Err(error) => Err(format!("the children can't be looked at: {error}")),
    }
}

/// What children between two of them reported, ordered by child, attempt and stage.
pub(super) async fn read_rows(
    engine: &Engine,
    release: ReleaseKey,
    first: ChildKey,
    last: ChildKey,
) -> Result<Vec<StageResultRow>, String> {
    let rows = engine.reader().stage_results(release.0, first.0, last.0).await;
    rows.map_err(|error| explain_unread_reports(engine, release, &error))
}

/// What is said where a report can't be had.
pub(super) fn explain_unread_reports(engine: &Engine, release: ReleaseKey, error: &StoreError) -> String {
    explain_unread(engine, &release.0.to_string(), "what children reported", error)
}

/// The latest report of each child, of one stage or of all; or only those that became final in a time, in milliseconds since
/// 1970.
pub(super) async fn read(
    engine: &Engine,
    due: &DueLook,
    pair: Option<&Pair>,
    final_in: Option<Range<i64>>,
) -> Result<Vec<StageReport>, String> {
    let (mut reports, mut after) = (Vec::new(), None);
    loop {
        let (members, more) = find_members(engine, due, after).await?;
        let of = Wanted {
            release: due.release,
            strategy: &due.strategy,
            slot: due.whose.slot,
            pair,
            final_in: final_in.as_ref(),
        };
        reports.extend(of.read_some(engine, &members).await?);
        match more {
            Some(_) => after = more,
            None => return Ok(reports),
        }
    }
}

/// Which reports of a release are wanted.
struct Wanted<'a> {
    release: ReleaseKey,
    strategy: &'a Strategy,
    /// `None`: of all stages.
    slot: Option<StepIndex>,
    /// Of which variations; reports that tell nothing of them are none.
    pair: Option<&'a Pair>,
    /// Only those that became final in this time.
    final_in: Option<&'a Range<i64>>,
}

impl Wanted<'_> {
    async fn read_all(&self, engine: &Engine, members: &[ChildKey]) -> Result<Vec<StageReport>, String> {
        let mut reports = Vec::new();
        for some in members.chunks(SLICE) {
            reports.extend(self.read_some(engine, some).await?);
        }
        Ok(reports)
    }

    async fn read_some(&self, engine: &Engine, members: &[ChildKey]) -> Result<Vec<StageReport>, String> {
        let (Some(first), Some(last)) = (members.first(), members.last()) else { return Ok(Vec::new()) };
        let rows = read_rows(engine, self.release, *first, *last).await?;
        let latest = self.keep_latest(&rows, members);
        latest.map_err(|error| explain_unread_reports(engine, self.release, &error))
    }

    /// The latest report of each child.
    fn keep_latest(
        &self,
        rows: &[StageResultRow],
        members: &[ChildKey],
    ) -> Result<Vec<StageReport>, StoreError> {
        let mut latest: BTreeMap<(ChildKey, StepIndex), Summary> = BTreeMap::new();
        for row in rows {
            let (child, of) = (ChildKey(row.child_key), json_columns::slot_of(row, self.strategy)?);
            let is_meant = self.slot.map_or_else(|| of.stage_index().is_some(), |slot| slot == of);
            if !is_meant || members.binary_search(&child).is_err() || !is_counted(row, self.final_in)? {
                continue;
            }
            let told = json_columns::summary(row)?;
            let Some(summary) = self.pair.map_or_else(|| Some(told.clone()), |pair| told.of_pair(pair))
            else {
                continue;
            };
            // A manager's later waves report the earlier ones once more: what is added to would count twice.
            let says_again = summary.agents.is_some() && row.attempt > 1 && self.final_in.is_some();
            if !says_again {
                // They come in the order of attempts.
                latest.insert((child, of), summary);
            }
        }
        let report = |((child, slot), summary)| StageReport { child, slot, summary };
        Ok(latest.into_iter().map(report).collect())
    }
}

/// The new version of now beside the one of an earlier release, child by child: of those who reported both times, each a
/// stratum of its own. `Ok(None)`: the store has that release no more.
pub(super) async fn strata_since(
    engine: &Engine,
    earlier: &str,
    reports: &[StageReport],
    (of, pair): (ChildMetric, Option<&Pair>),
    strategy: &Strategy,
) -> Result<Option<Vec<Stratum>>, String> {
    let unread = |error: StoreError| explain_unread(engine, earlier, "the earlier release", &error);
    let Some(row) = engine.reader().release(earlier).await.map_err(unread)? else { return Ok(None) };
    let key = row.release_key;
    let before = json_columns::strategy_of(&row).map_err(unread)?;
    let mut members: Vec<ChildKey> = reports.iter().map(|report| report.child).collect();
    members.sort_unstable();
    members.dedup();
    let wanted = Wanted { release: ReleaseKey(key), strategy: &before, slot: None, pair, final_in: None };
    let earlier = wanted.read_all(engine, &members).await?;
    let earlier: BTreeMap<(ChildKey, &str), &StageReport> = earlier
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
    let strata = (0..)
        .zip(pairs)
        .flat_map(|(at, (name, baseline, canary))| pair_releases(&name, at, baseline, canary));
    Ok(Some(strata.collect()))
}

/// What a child measured of the new version, by group of users where all calls of a user go to one version.
type Apart = BTreeMap<(Assignment, Option<u8>), Sample>;

/// Two releases side by side: group by group, where both tell them apart.
fn pair_releases(name: &str, at: u64, mut baseline: Apart, mut canary: Apart) -> Vec<Stratum> {
    let keys = || baseline.keys().chain(canary.keys());
    let sticky = keys().map(|(assignment, _)| *assignment).max().unwrap_or_default();
    let are_groups = keys().all(|(_, group)| group.is_some());
    if !are_groups {
        let sum = |side: Apart| side.into_values().reduce(|sum, more| sum.clone().with(&more).unwrap_or(sum));
        let both = sum(baseline).zip(sum(canary));
        let stratum =
            |(baseline, canary)| Stratum { assignment: sticky, ..Stratum::new(name, at, baseline, canary) };
        return both.map(stratum).into_iter().collect();
    }
    let keys: BTreeSet<_> = keys().copied().collect();
    let pair = |key: (Assignment, Option<u8>)| {
        let none = |other: Option<&Sample>| other.map(Sample::none);
        let (before, now) = (baseline.remove(&key), canary.remove(&key));
        let (before_none, now_none) = (none(now.as_ref()), none(before.as_ref()));
        let stratum = Stratum::new(name, at, before.or(before_none)?, now.or(now_none)?);
        Some(Stratum { assignment: key.0, group: key.1, ..stratum })
    };
    keys.into_iter().filter_map(pair).collect()
}

/// One measurement of the new version over all children.
pub(super) fn measure(
    reports: &[StageReport],
    of: ChildMetric,
    metric: &Metric,
    mut found: Metered,
) -> Metered {
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
        (ChildMetric::ResponseTime, Some(quantile)) => all.new_quantile(quantile),
        (ChildMetric::ResponseTime, None) => {
            Some(all.f2_times_summary.median).filter(|median| *median >= 0.0)
        }
    }
}

impl StageReport {
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn stage<'s>(&self, strategy: &'s Strategy) -> Option<&'s Stage> {
        strategy.stages.get(self.slot.stage_index()?)
    }

    /// What it says of the new version, if that can be compared.
    fn new_version(&self, strategy: &Strategy, of: ChildMetric) -> Option<Apart> {
        let strata = Strata::of([&self.summary], self.stage(strategy)?.new_traffic);
        let is_sticky = strategy.is_sticky(self.slot.stage_index());
        let told = |said: Assignment| if is_sticky { said.max(Assignment::User) } else { said };
        let mut apart: BTreeMap<_, Strata> = BTreeMap::new();
        for (key, sides) in strata.iter() {
            apart.entry((told(key.assignment), key.group)).or_default().add(*key, sides);
        }
        let new = |strata: Strata| measured::samples(&strata.total(), of).map(|[_, new]| new);
        let apart: Apart =
            apart.into_iter().filter_map(|(part, strata)| Some((part, new(strata)?))).collect();
        (!apart.is_empty()).then_some(apart)
    }
}

fn is_counted(row: &StageResultRow, final_in: Option<&Range<i64>>) -> Result<bool, StoreError> {
    let Some(time) = final_in else { return Ok(true) };
    Ok(json_columns::stage_status(row)?.is_over() && time.contains(&row.at_ms))
}
