//! What `PREVIOUS` compares with: the same stage of the last release of the function that ended well, shifted so that
//! both began at once.
//!
//! Two runs of one and the same version differ by the time of day, the weather and the fleet, and no traffic makes that
//! smaller. Where the strategy doesn't give this variation, the base version's own earlier weeks tell it: as much time as
//! the analysis takes, from the same hour of the same weekday on. Weeks are of 168 hours: where clocks are put forward or
//! back in between, windows lie an hour off by the local clock. That, and an older base version among them, makes the
//! variation larger and never smaller, and so a fail rarer.

use std::{ops::RangeInclusive, time::Duration};

use futures_util::future::try_join_all;

use super::{due_looks::DueLook, missing_rows::explain_unread, provider_query::ask};
use crate::{Engine, json_columns};
use analysis::{RunVariation, Sample};
use domain::release::{analysis::Previous, previous_run::Time};
use language::{
    Strategy,
    analysis::{Analysis, MetricSource, ProviderQuery, Variant},
};
use metrics_providers::provider::{Registry, Window};
use store::StoreError;

/// One week, in milliseconds.
const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// Earlier weeks that are asked for; five of them must have values.
const MAX_WEEKS: i64 = 10;

/// A week with fewer values tells nothing.
const LEAST_WEEKS_VALUES: usize = 5;

/// With what this run is compared: `Ok(Err(_))` says why there is nothing.
pub(super) async fn find(engine: &Engine, due: &DueLook) -> Result<Result<Previous, String>, String> {
    let function = due.function();
    let history = due.strategy.history_key(function);
    let row = engine.reader().precedent(&history, due.started_ms, due.release.0).await;
    let unread = |error: StoreError| explain_unread(engine, &due.id, "the times of earlier releases", &error);
    let row = row.map_err(unread)?;
    let Some(row) = row else {
        return Ok(Err(format!(
            "no earlier release of {function} ended well here, so there is nothing to compare with"
        )));
    };
    let stage = due.stage.and_then(|stage| due.strategy.stages.get(stage)).map(|stage| stage.name.as_str());
    let times = json_columns::times(&row).map_err(unread)?;
    Ok(if let Some(time) = find_time(&times, stage, due.run.number) {
        Ok(Previous { release: row.id, began_ms: time.began_ms, ended_ms: time.ended_ms })
    } else {
        let what = stage.map_or("time of its own".to_owned(), |stage| format!("stage {stage:?}"));
        Err(format!("release {} had no {what}, so there is nothing to compare with", row.id))
    })
}

/// The same stage in the same wave, or in the last one before it.
fn find_time<'t>(times: &'t [Time], stage: Option<&str>, number: u32) -> Option<&'t Time> {
    let of_stage = || times.iter().filter(|time| time.stage.as_deref() == stage);
    let before = of_stage().filter(|time| time.number <= number).max_by_key(|time| time.number);
    before.or_else(|| of_stage().min_by_key(|time| time.number))
}

/// As much of the earlier run as there is of this one, where there are values up to `until`.
pub(super) fn window(previous: &Previous, analysis: &Analysis, due: &DueLook, until: Option<i64>) -> Window {
    let ms = |time: u128| i64::try_from(time).unwrap_or(i64::MAX);
    let begun = previous.began_ms.saturating_add(ms(analysis.initial_delay.as_millis()));
    let end = begun.saturating_add(ms(due.elapsed_ms.into()));
    Window { start_ms: until.unwrap_or(begun), end_ms: end.min(previous.ended_ms) }
}

/// What the earlier release measured itself in some intervals, for where the provider has forgotten it: the values of its
/// new version that were asked for in the same words, as often, in the same stage. Empty where there is none of it.
pub(super) async fn read_kept(
    engine: &Engine,
    due: &DueLook,
    previous: &Previous,
    asked: &ProviderQuery,
    interval: Duration,
    intervals: RangeInclusive<u64>,
) -> Result<Vec<f64>, String> {
    let unread = |error: StoreError| {
        explain_unread(engine, &previous.release, "what the earlier release measured", &error)
    };
    let row = engine.reader().release(&previous.release).await.map_err(unread)?;
    let Some(row) = row else { return Ok(Vec::new()) };
    let key = row.release_key;
    let earlier = json_columns::strategy_of(&row).map_err(unread)?;
    let rows = engine.reader().analysis_runs(key).await.map_err(unread)?;
    let name = |strategy: &Strategy, stage: Option<usize>| {
        stage.and_then(|stage| strategy.stages.get(stage)).map(|stage| stage.name.clone())
    };
    let wanted = name(&due.strategy, due.stage);
    let rows = json_columns::runs_by_block(&rows, &earlier).map_err(unread)?;
    let mut values = Vec::new();
    for (block, (stage, analysis)) in earlier.analyses().enumerate() {
        let row = rows.get(&block).filter(|_| name(&earlier, stage) == wanted);
        let Some(row) = row else { continue };
        let run = json_columns::run(row).map_err(unread)?;
        let same = analysis.metrics.iter().zip(&run.metrics).find(|(metric, _)| match &metric.source {
            MetricSource::Query(then) => {
                (&then.provider, &then.query, &then.json_path)
                    == (&asked.provider, &asked.query, &asked.json_path)
                    && analysis.interval_of(metric) == interval
            }
            MetricSource::Children(_) => false,
        });
        let strata = same.map(|(_, found)| found.strata.as_slice()).unwrap_or_default();
        for stratum in strata.iter().filter(|stratum| intervals.contains(&stratum.interval)) {
            if let Sample::Values(found) = &stratum.canary {
                values.extend_from_slice(found);
            }
        }
    }
    Ok(values)
}

/// The variation from run to run, from the same hours of earlier weeks.
pub(super) async fn variation(
    registry: &Registry,
    due: &DueLook,
    analysis: &Analysis,
    asked: &ProviderQuery,
) -> Result<RunVariation, String> {
    let start = due.window(None).start_ms;
    let length = analysis.duration.map_or(0, |duration| duration.as_millis());
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let weeks = (1..=MAX_WEEKS).map(|week| {
        let start_ms = start.saturating_sub(week * WEEK_MS);
        let window = Window { start_ms, end_ms: start_ms.saturating_add(length) };
        ask(registry, due, asked, Variant::Baseline, window)
    });
    let weeks = try_join_all(weeks).await?;
    let medians = weeks.iter().filter_map(|(samples, _)| median(samples.values().collect()));
    let medians: Vec<f64> = medians.collect();
    Ok(if medians.is_empty() { RunVariation::Unknown } else { RunVariation::Windows(medians) })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    if values.len() < LEAST_WEEKS_VALUES {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    Some(if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    })
}
