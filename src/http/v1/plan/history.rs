//! What the base version, and what was asked of it, came to in the last release of each function that ended well.

use std::collections::BTreeMap;

use heart::release::{
    analysis::Run,
    assignment::Slot,
    precedent::Time,
    prospect::{Known, Measured, Observed, Point, Prospect, Reporting, Risk, prospects, risks},
    summary::Summary,
};
use language::{Stage, Strategy, analysis::Source};
use store::{
    Reader, StoreError,
    rows::{AnalysisRunRow, PrecedentRow, StageResultRow},
};
use wire::api::{PlannedCondition, PlannedMetric, PlannedPoint};

/// Children of an earlier release that are looked at: what a version does many of them know, and some report a megabyte.
const MOST_CHILDREN: u32 = 100;

/// No release has this key.
const NONE: u32 = u32::MAX;

/// What the store has of the earlier releases of a strategy's functions, unread.
pub struct History(BTreeMap<usize, Earlier>);

impl History {
    /// Of some children of each earlier release.
    pub async fn read(reader: &dyn Reader, strategy: &Strategy) -> Result<Self, StoreError> {
        let mut found = BTreeMap::new();
        for (at, function) in strategy.functions.iter().enumerate() {
            if let Some(earlier) = Earlier::read(reader, &function.name).await? {
                found.insert(at, earlier);
            }
        }
        Ok(Self(found))
    }

    /// Of each stage. What is long is understood here, where nobody waits for it.
    fn observed(&self, strategy: &Strategy) -> Vec<Option<Observed>> {
        let stages = strategy.stages.iter();
        stages.map(|stage| self.0.get(&stage.function).and_then(|earlier| earlier.of(stage))).collect()
    }

    /// By queries.
    fn measured(&self) -> Vec<Measured> {
        self.0.values().flat_map(Earlier::measured).collect()
    }
}

/// An earlier release of a function.
struct Earlier {
    function: String,
    id: String,
    strategy: String,
    times: Vec<Time>,
    /// In the order of attempts.
    rows: Vec<StageResultRow>,
    runs: Vec<AnalysisRunRow>,
}

impl Earlier {
    async fn read(reader: &dyn Reader, function: &str) -> Result<Option<Self>, StoreError> {
        let Some(row) = reader.precedent(function, i64::MAX, NONE).await? else { return Ok(None) };
        let PrecedentRow { id, times, release_key, .. } = row;
        let Some(release) = reader.release(&id).await? else { return Ok(None) };
        let children = reader.assignments(release_key, None, MOST_CHILDREN).await?;
        let (Some(first), Some(last)) = (children.first(), children.last()) else { return Ok(None) };
        let rows = reader.stage_results(release_key, first.child_key, last.child_key).await?;
        let runs = reader.analysis_runs(release_key).await?;
        let times = serde_json::from_str(&times).unwrap_or_default();
        Ok(Some(Self { function: function.to_owned(), id, strategy: release.strategy, times, rows, runs }))
    }

    /// What its analyses measured by queries.
    fn measured(&self) -> Vec<Measured> {
        let Some(strategy) = language::check_stored(&self.strategy).strategy else { return Vec::new() };
        let mut all = Vec::new();
        for (block, (stage, analysis)) in strategy.analyses().enumerate() {
            let row = self.runs.iter().find(|row| usize::try_from(row.block) == Ok(block));
            let Some(run) = row.and_then(|row| serde_json::from_str::<Run>(&row.detail).ok()) else {
                continue;
            };
            let stage = stage.and_then(|stage| strategy.stages.get(stage)).map(|stage| stage.name.clone());
            let queries = analysis.metrics.iter().zip(run.metrics);
            let queries = queries.filter(|(metric, found)| {
                matches!(metric.source, Source::Query(_)) && !found.strata.is_empty()
            });
            all.extend(queries.map(|(metric, found)| {
                Measured::of(&self.id, stage.clone(), analysis, metric, found.strata, run.looked_ms)
            }));
        }
        all
    }

    /// The stage of the same name, or the last one in which both versions of the function were called.
    fn of(&self, stage: &Stage) -> Option<Observed> {
        let strategy = language::check_stored(&self.strategy).strategy?;
        let is_of_function = |found: &Stage| {
            strategy.functions.get(found.function).is_some_and(|function| function.name == self.function)
        };
        let stages = || strategy.stages.iter().enumerate().filter(|(_, found)| is_of_function(found));
        let same = stages().find(|(_, found)| found.name == stage.name);
        let (at, found) =
            same.or_else(|| stages().rfind(|(_, found)| (1..100).contains(&found.new_traffic)))?;
        let time = self.times.iter().filter(|time| time.stage.as_deref() == Some(&*found.name));
        let time = time.min_by_key(|time| time.number)?;
        let seconds = (time.ended_ms - time.began_ms) as f64 / 1e3;
        let mut latest = BTreeMap::new();
        for row in
            self.rows.iter().filter(|row| u8::try_from(row.stage).is_ok_and(|of| Slot(of) == Slot::stage(at)))
        {
            if let Ok(summary) = serde_json::from_str::<Summary>(&row.summary) {
                latest.insert(row.child_key, summary);
            }
        }
        let reports: Vec<Summary> = latest.into_values().collect();
        (!reports.is_empty()).then(|| Observed::of(&self.id, &reports, found.new_traffic, seconds))
    }
}

/// What it takes to judge a strategy, as the API shows it. `waves`: the agents of each.
pub fn takes(
    strategy: &Strategy,
    history: &History,
    waves: &[u64],
    reporting: Reporting,
) -> (Vec<PlannedMetric>, Vec<PlannedCondition>) {
    let (observed, measured) = (&history.observed(strategy), &history.measured());
    let known = Known { observed, measured, waves, reporting };
    let metrics = prospects(strategy, known).into_iter().map(|found| metric(strategy, found));
    let agents = waves.iter().sum();
    let conditions =
        risks(strategy, observed, agents).into_iter().filter_map(|risk| condition(strategy, risk));
    (metrics.collect(), conditions.collect())
}

fn metric(strategy: &Strategy, found: Prospect) -> PlannedMetric {
    let seconds = |calls: u64| found.calls_per_second.map(|rate| calls as f64 / rate);
    let point = |wanted: Option<f64>, point: Option<Point>| PlannedPoint {
        calls: point.map(|point| point.calls),
        seconds: point.and_then(|point| seconds(point.calls)),
        passes: point.map(|point| point.passes).or(wanted).unwrap_or(0.0),
        smallest_change: point.and_then(|point| point.smallest_change),
    };
    PlannedMetric {
        stage: found.stage.and_then(|stage| strategy.stages.get(stage)).map(|stage| stage.name.clone()),
        wanted: found.wanted.iter().map(|(share, at)| point(Some(*share), *at)).collect(),
        given: found.given.map(|given| point(None, Some(given))),
        metric: found.metric,
        basis: found.basis,
        relative: found.relative,
        looks: found.looks,
        reporting: found.reporting,
        calls_per_second: found.calls_per_second,
        warning: found.warning,
        unknown: found.unknown,
    }
}

fn condition(strategy: &Strategy, risk: Risk) -> Option<PlannedCondition> {
    let stage = strategy.stages.get(risk.stage)?;
    Some(PlannedCondition {
        stage: stage.name.clone(),
        condition: risk.condition,
        basis: risk.basis,
        min_calls: stage.min_calls,
        fails: risk.chances.fails,
        untested: risk.chances.untested,
        least_calls: risk.least_calls,
        warning: risk.warning,
    })
}
