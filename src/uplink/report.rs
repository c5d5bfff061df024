//! Results go up: one summary of all children for each stage, read from the store when it is sent.

use std::collections::BTreeMap;

use super::{Caller, PATIENCE, Trouble};
use crate::{
    engine::rows::Upward,
    model::StageStatus,
    release::{
        assignment::Slot,
        ending::Ending,
        manager::Agents,
        measured,
        strata::{self, Strata},
        summary::{self, Reported, Summary},
        upstream::aggregate,
    },
    store::{MAX_PAGE, StoreError},
    wire::child::{Buckets, Histogram, StageSummary, Stratum, Times, Why},
};

impl Caller {
    pub(super) async fn send_result(&self, id: &str, upward: &Upward) -> Result<(), Trouble> {
        // What is said anew is the agents alone.
        let summaries = match upward.release.as_ref().filter(|_| upward.recount.is_none()) {
            Some(_) => self.summaries(upward.release_key, upward.slot).await?,
            None => Vec::new(),
        };
        let strata = Strata::of(&summaries, upward.split).told();
        let effects = measured::effects(&summaries, upward.split);
        let why = upward.why.clone();
        let (agents, recount) = (Some(upward.agents), upward.recount);
        let sum = Summary { strata, effects, agents, why, recount, ..aggregate(upward.status, &summaries) };
        let summary = wire(sum, upward.stage.clone(), upward.next.clone());
        Ok(self.parent.result(id, &upward.offer, summary).await?)
    }

    /// Every child is ready to end a stage: the parent hears so, with preliminary numbers.
    pub(super) async fn tell_waiting(
        &self,
        id: &str,
        offer: &str,
        release: &str,
        stage: u8,
        name: &str,
    ) -> Result<(), Trouble> {
        let release = release.to_owned();
        let found = self.engine.query(PATIENCE, move |state| {
            let release = state.release_by_id(&release)?;
            let split = release.strategy.stages.get(usize::from(stage))?.new_traffic;
            let next = release.stage_after(stage).map(str::to_owned);
            Some((release.key.0, Slot::stage(usize::from(stage)).0, split, release.agents(), next))
        });
        let Some((key, slot, split, agents, next)) = found.await? else { return Ok(()) };
        let summaries = self.summaries(key, slot).await?;
        let strata = Strata::of(&summaries, split).told();
        let effects = measured::effects(&summaries, split);
        let sum = Summary {
            agents: Some(agents),
            strata,
            effects,
            ..aggregate(StageStatus::SuccessWaiting, &summaries)
        };
        let summary = wire(sum, Some(name.to_owned()), next);
        Ok(self.parent.result(id, offer, summary).await?)
    }

    /// What the children reported of a stage, the last attempt of each.
    async fn summaries(&self, release: u32, slot: u8) -> Result<Vec<Summary>, StoreError> {
        let reader = self.engine.reader();
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let rows = reader.assignments(release, after, MAX_PAGE).await?;
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(found) };
            let results = reader.stage_results(release, first.child_key, last.child_key).await?;
            let of_slot = results.into_iter().filter(|row| row.stage == i16::from(slot));
            let latest: BTreeMap<u32, String> = of_slot.map(|row| (row.child_key, row.summary)).collect();
            found.extend(latest.values().filter_map(|json| serde_json::from_str::<Summary>(json).ok()));
            after = Some(last.child_key);
        }
    }
}

fn wire(summary: Summary, stage_name: Option<String>, next_stage: Option<String>) -> StageSummary {
    let agents = summary.agents;
    let count = |count: fn(Agents) -> u32| agents.map(count);
    StageSummary {
        participants: count(|agents| agents.participants),
        succeeded: count(|agents| agents.succeeded),
        failed: count(|agents| agents.failed),
        timed_out: count(|agents| agents.timed_out),
        unreachable: count(|agents| agents.unreachable),
        // Only where there are any: a parent of an earlier build doesn't know it.
        untested: agents.map(|agents| agents.untested).filter(|untested| *untested > 0),
        unconfirmed: count(|agents| agents.unconfirmed),
        stage_name,
        proxy_times: times(summary.proxy_times),
        f1_times: times(summary.f1_times_summary),
        f2_times: times(summary.f2_times_summary),
        f1_err_rate: summary.f1_err_rate,
        f2_err_rate: summary.f2_err_rate,
        status: summary.status,
        next_stage,
        recount: summary.recount,
        why: summary.why.map(|why| ending(*why)),
        f1_calls: summary.f1_calls,
        f2_calls: summary.f2_calls,
        f1_errors: summary.f1_errors,
        f2_errors: summary.f2_errors,
        f1_histogram: summary.f1_histogram.map(|histogram| self::histogram(*histogram)),
        f2_histogram: summary.f2_histogram.map(|histogram| self::histogram(*histogram)),
        strata: summary.strata.into_iter().map(stratum).collect(),
        effects: summary.effects,
    }
}

fn times(times: summary::Times) -> Times {
    Times { median: times.median, minimum: times.minimum, maximum: times.maximum }
}

fn histogram(histogram: Reported) -> Histogram {
    match histogram {
        Reported::Sketch(sketch) => Histogram::Sketch(sketch),
        Reported::Bounds(kept) => {
            Histogram::Bounds(Buckets { bounds_ms: kept.bounds_ms, counts: kept.counts })
        }
    }
}

fn stratum(kept: strata::Stratum) -> Stratum {
    Stratum {
        split: kept.split,
        measured_split: kept.measured_split,
        interval: kept.interval,
        f1_calls: kept.f1_calls,
        f2_calls: kept.f2_calls,
        f1_errors: kept.f1_errors,
        f2_errors: kept.f2_errors,
        f1_histogram: kept.f1_histogram.map(|kept| histogram(*kept)),
        f2_histogram: kept.f2_histogram.map(|kept| histogram(*kept)),
    }
}

fn ending(kept: Ending) -> Why {
    let Ending { cause, text, child, stage, numbers, by, note } = kept;
    let why = Why { cause: cause.name().to_owned(), text, child, stage, numbers, by, note };
    why.fitted()
}
