//! What the base version, and what was asked of it, came to in the last release of each function that ended well.

use std::collections::BTreeMap;

use domain::release::{
    assignment::StepIndex,
    power_analysis::{
        Measured, Observed, PowerAnalysis, PowerAt, PriorKnowledge, Reporting, Risk, prospects, risks,
    },
    previous_run::Time,
    summary::Summary,
};
use engine::{Engine, json_columns};
use language::{Stage, Strategy, analysis::MetricSource};
use protocol::api::{PlannedCondition, PlannedMetric, PlannedPoint};
use store::{
    Reader, StoreError,
    rows::{AnalysisRunRow, PrecedentRow, ReleaseRow, StageResultRow},
};

/// Children of an earlier release that are looked at: what a version does many of them know, and some report a megabyte.
const MOST_CHILDREN: u32 = 100;

/// No release has this key.
const NONE: u32 = u32::MAX;

/// What the store has of the earlier releases of a strategy's functions, unread. Of one of which something can't be read
/// nothing is said, rather than what the rest comes to.
pub struct PlanHistory {
    earlier: BTreeMap<usize, Earlier>,
    engine: Engine,
}

impl PlanHistory {
    /// Of some children of each earlier release.
    pub async fn read(engine: &Engine, strategy: &Strategy) -> Result<Self, StoreError> {
        let mut found = BTreeMap::new();
        for (at, function) in strategy.subject_keys().enumerate() {
            match Earlier::read(engine.reader().as_ref(), strategy, function).await {
                Ok(earlier) => found.extend(earlier.map(|earlier| (at, earlier))),
                Err(error @ StoreError::BadRow { .. }) => engine.unreadable().note(&error),
                Err(error) => return Err(error),
            }
        }
        Ok(Self { earlier: found, engine: engine.clone() })
    }

    /// What could be read.
    fn known<T>(&self, found: Result<T, StoreError>) -> Option<T> {
        found.inspect_err(|error| self.engine.unreadable().note(error)).ok()
    }

    /// Of each stage. What is long is understood here, where nobody waits for it.
    fn observed(&self, strategy: &Strategy) -> Vec<Option<Observed>> {
        let stages = strategy.stages.iter();
        let of = |stage: &Stage| self.known(self.earlier.get(&stage.subject)?.of(stage))?;
        stages.map(of).collect()
    }

    /// By queries.
    fn measured(&self) -> Vec<Measured> {
        self.earlier.values().filter_map(|earlier| self.known(earlier.measured())).flatten().collect()
    }
}

/// An earlier release of a function.
struct Earlier {
    function: String,
    release: ReleaseRow,
    times: Vec<Time>,
    /// In the order of attempts.
    rows: Vec<StageResultRow>,
    runs: Vec<AnalysisRunRow>,
}

impl Earlier {
    async fn read(
        reader: &dyn Reader,
        strategy: &Strategy,
        function: &str,
    ) -> Result<Option<Self>, StoreError> {
        let Some(row) = reader.precedent(&strategy.history_key(function), i64::MAX, NONE).await? else {
            return Ok(None);
        };
        let times = json_columns::times(&row)?;
        let PrecedentRow { id, release_key, .. } = row;
        let Some(release) = reader.release(&id).await? else { return Ok(None) };
        let children = reader.assignments(release_key, None, MOST_CHILDREN).await?;
        let (Some(first), Some(last)) = (children.first(), children.last()) else { return Ok(None) };
        let rows = reader.stage_results(release_key, first.child_key, last.child_key).await?;
        let runs = reader.analysis_runs(release_key).await?;
        Ok(Some(Self { function: function.to_owned(), release, times, rows, runs }))
    }

    /// What its analyses measured by queries.
    fn measured(&self) -> Result<Vec<Measured>, StoreError> {
        let strategy = json_columns::strategy_of(&self.release)?;
        let rows = json_columns::runs_by_block(&self.runs, &strategy)?;
        let mut all = Vec::new();
        for (block, (stage, analysis)) in strategy.analyses().enumerate() {
            let Some(row) = rows.get(&block) else { continue };
            let run = json_columns::run(row)?;
            let stage = stage.and_then(|stage| strategy.stages.get(stage)).map(|stage| stage.name.clone());
            let queries = analysis.metrics.iter().zip(run.metrics);
            let queries = queries.filter(|(metric, found)| {
                matches!(metric.source, MetricSource::Query(_)) && !found.strata.is_empty()
            });
            all.extend(queries.map(|(metric, found)| {
                Measured::of(&self.release.id, stage.clone(), analysis, metric, found.strata, run.looked_ms)
            }));
        }
        Ok(all)
    }

    /// The stage of the same name, or the last one in which both versions of the function were called.
    fn of(&self, stage: &Stage) -> Result<Option<Observed>, StoreError> {
        let strategy = json_columns::strategy_of(&self.release)?;
        let is_of_function =
            |found: &Stage| strategy.subject_key(found.subject).is_some_and(|key| key == self.function);
        let stages = || strategy.stages.iter().enumerate().filter(|(_, found)| is_of_function(found));
        let same = stages().find(|(_, found)| found.name == stage.name);
        let other = || stages().rfind(|(_, found)| (1..100).contains(&found.new_traffic));
        let Some((at, found)) = same.or_else(other) else { return Ok(None) };
        let time = self.times.iter().filter(|time| time.stage.as_deref() == Some(&*found.name));
        let Some(time) = time.min_by_key(|time| time.number) else { return Ok(None) };
        let seconds = (time.ended_ms - time.began_ms) as f64 / 1e3;
        let mut latest = BTreeMap::new();
        for row in &self.rows {
            if json_columns::slot_of(row, &strategy)? == StepIndex::stage(at) {
                latest.insert(row.child_key, json_columns::summary(row)?);
            }
        }
        let reports: Vec<Summary> = latest.into_values().collect();
        let observed = || Observed::of(&self.release.id, &reports, found.new_traffic, seconds);
        Ok((!reports.is_empty()).then(observed))
    }
}

/// What it takes to judge a strategy, as the API shows it. `waves`: the agents of each.
pub fn takes(
    strategy: &Strategy,
    history: &PlanHistory,
    waves: &[u64],
    reporting: Reporting,
) -> (Vec<PlannedMetric>, Vec<PlannedCondition>) {
    let (observed, measured) = (&history.observed(strategy), &history.measured());
    let known = PriorKnowledge { observed, measured, waves, reporting };
    let metrics = prospects(strategy, known).into_iter().map(|found| metric(strategy, found));
    let agents = waves.iter().sum();
    let conditions =
        risks(strategy, observed, agents).into_iter().filter_map(|risk| condition(strategy, risk));
    (metrics.collect(), conditions.collect())
}

fn metric(strategy: &Strategy, found: PowerAnalysis) -> PlannedMetric {
    let seconds = |calls: u64| found.calls_per_second.map(|rate| calls as f64 / rate);
    let point = |wanted: Option<f64>, point: Option<PowerAt>| PlannedPoint {
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
