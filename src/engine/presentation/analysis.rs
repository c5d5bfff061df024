//! What judges a release, as the API shows it.

use domain::release::analysis::{Extended, Metered, Run, name};
use language::{
    Strategy,
    analysis::{Analysis, Comparison, Deviation, Metric, Rule, Tolerance},
};
use protocol::api::{AnalysisOverview, ExtendedOverview, MetricLimits, MetricOverview};

/// Every block of a strategy with its latest run.
pub fn overviews(strategy: &Strategy, runs: &[Run]) -> Vec<AnalysisOverview> {
    let blocks = strategy.analyses().enumerate();
    let blocks = blocks.map(|(block, (stage, analysis))| {
        let run = runs.iter().find(|run| usize::from(run.block) == block);
        overview(strategy, stage, analysis, run)
    });
    blocks.collect()
}

fn overview(
    strategy: &Strategy,
    stage: Option<usize>,
    analysis: &Analysis,
    run: Option<&Run>,
) -> AnalysisOverview {
    let shares = strategy.alpha_shares();
    let metric = |(at, metric): (usize, &Metric)| {
        let share = shares.iter().find(|share| share.stage == stage && std::ptr::eq(share.metric, metric));
        let found = run.and_then(|run| run.metrics.get(at));
        overview_of(metric, share.map(|share| share.alpha), found)
    };
    let stage_name = stage.and_then(|stage| strategy.stages.get(stage));
    AnalysisOverview {
        of: stage_name.map_or("the release".to_owned(), |stage| format!("stage {}", stage.name)),
        state: run.map_or("waiting", |run| run.standing.name()).to_owned(),
        verdict: run.and_then(|run| run.verdict).map(|verdict| name(verdict).to_owned()),
        why: run.map(|run| run.why.clone()).filter(|why| !why.is_empty()),
        run: run.map_or(0, |run| run.number + 1),
        runs: run.map_or(0, |run| run.of),
        looks: run.map_or(0, |run| run.looks),
        extended: run.and_then(|run| run.extended).map(|Extended { for_ms, calls, begun }| {
            ExtendedOverview { for_ms, calls, begun: begun.is_some() }
        }),
        reporting: strategy.reported_once(stage, analysis),
        metrics: analysis.metrics.iter().enumerate().map(metric).collect(),
    }
}

fn overview_of(metric: &Metric, alpha: Option<f64>, found: Option<&Metered>) -> MetricOverview {
    MetricOverview {
        name: metric.name.clone(),
        strategy: metric.strategy().to_owned(),
        dry_run: metric.dry_run,
        alpha,
        verdict: found.and_then(|found| found.verdict).map(|verdict| name(verdict).to_owned()),
        found: found.map(|found| found.sentence.clone()).unwrap_or_default(),
        limits: limits(&metric.rule),
        evidence: found
            .and_then(|found| found.evidence.as_deref())
            .and_then(|evidence| serde_json::to_value(evidence).ok()),
    }
}

/// What a metric must keep, as its strategy has it.
fn limits(rule: &Rule) -> Option<MetricLimits> {
    match rule {
        Rule::Threshold { min, max, .. } => {
            Some(MetricLimits { of: "value".to_owned(), at_least: *min, at_most: *max, floor: None })
        }
        Rule::Condition(_) => None,
        Rule::Compare(comparison) => Some(margins(comparison)),
    }
}

/// How far the new version may be from the other, each way that is worse.
fn margins(comparison: &Comparison) -> MetricLimits {
    let (of, least, most) = match comparison.tolerance {
        Tolerance::Ratio(part) => ("ratio", 1.0 - part, 1.0 + part),
        Tolerance::Shift(amount) => ("difference", -amount, amount),
    };
    let (low, high) = match comparison.deviation {
        Deviation::Low => (true, false),
        Deviation::High => (false, true),
        Deviation::Either => (true, true),
    };
    MetricLimits {
        of: of.to_owned(),
        at_least: low.then_some(least),
        at_most: high.then_some(most),
        floor: Some(comparison.floor).filter(|floor| *floor > 0.0),
    }
}
