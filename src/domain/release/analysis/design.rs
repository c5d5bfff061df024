//! How a comparison is made: its question, its part of alpha, and when that is spent.

use super::run::{Run, ms};
use crate::release::state::Release;
use ::analysis::{
    Design, Deviation, EARLY_PART, EXTENSION_RESERVE, End, Question, RunVariation, Sampling, Spending,
    Tolerance,
};
use language::analysis::{
    self as spec, Analysis, ChildMetric, Comparison, Metric, MetricSource, Reference, Rule, Unclear,
};

/// What a strategy that says nothing allows is what the judge allows by itself.
const _: () = assert!(spec::DEFAULT_FLOOR.to_bits() == ::analysis::design::DEFAULT_FLOOR.to_bits());

impl Release {
    /// How the comparison of a metric is made in a run, or why it can't be.
    pub fn design(&self, run: &Run, metric: usize) -> Result<Design, String> {
        let (stage, analysis) = self.block(run.block).ok_or("there is no such block")?;
        let metric = analysis.metrics.get(metric).ok_or("there is no such metric")?;
        let Rule::Compare(compare) = &metric.rule else { return Err("it is no comparison".to_owned()) };
        let share = alpha_of(&self.strategy, stage, metric);
        if run.number >= run.of {
            return Err("no alpha is left for those who joined after the release was planned".to_owned());
        }
        let design = design(metric, compare, analysis, share / f64::from(run.of.max(1)));
        design.check().map(|()| design).map_err(|fault| fault.to_string())
    }
}

/// The share of a metric in the release's alpha, over all runs. What has no consequence is judged as if it were alone.
pub(in crate::release) fn alpha_of(
    strategy: &language::Strategy,
    stage: Option<usize>,
    metric: &Metric,
) -> f64 {
    let shares = strategy.alpha_shares();
    let is_own = |share: &&spec::AlphaShare<'_>| share.stage == stage && std::ptr::eq(share.metric, metric);
    shares.iter().find(is_own).map_or_else(|| strategy.alpha(), |share| share.alpha)
}

pub(in crate::release) fn design(
    metric: &Metric,
    compare: &Comparison,
    analysis: &Analysis,
    alpha: f64,
) -> Design {
    let by_children = matches!(metric.source, MetricSource::Children(_));
    let interval_ms = ms(analysis.interval_of(metric));
    let question = match (&metric.source, compare.quantile) {
        (MetricSource::Children(ChildMetric::ErrorRate), _) => Question::Rate { floor: compare.floor },
        (_, Some(quantile)) => Question::Quantile(quantile),
        (_, None) => Question::Location,
    };
    Design {
        question,
        deviation: match compare.deviation {
            spec::Deviation::High => Deviation::High,
            spec::Deviation::Low => Deviation::Low,
            spec::Deviation::Either => Deviation::Either,
        },
        tolerance: match compare.tolerance {
            spec::Tolerance::Ratio(ratio) => Tolerance::Ratio(ratio),
            spec::Tolerance::Shift(shift) => Tolerance::Shift(shift),
        },
        alpha,
        end: match analysis.duration {
            // What children report is judged once, when all have reported.
            Some(_) if by_children => End::Once,
            Some(duration) => {
                End::After { duration_ms: ms(duration), interval_ms, spending: Spending::default() }
            }
            None => End::Open { interval_ms },
        },
        // Calls are assigned at random; what a query gives are points of a series.
        sampling: if by_children { Sampling::Calls } else { Sampling::Series },
        run_variation: match compare.with {
            Reference::Previous { run_variation } => {
                Some(run_variation.map_or(RunVariation::Unknown, RunVariation::Given))
            }
            Reference::Baseline | Reference::Primary => None,
        },
        // What varies from run to run doesn't do so less if this one is looked at for longer.
        reserve: match compare.with {
            Reference::Baseline | Reference::Primary if may_be_extended(analysis) => EXTENSION_RESERVE,
            Reference::Baseline | Reference::Primary | Reference::Previous { .. } => 0.0,
        },
        early: if analysis.early_pass { EARLY_PART } else { 0.0 },
    }
}

/// Whether a run of it may go on after an end that decided nothing.
fn may_be_extended(analysis: &Analysis) -> bool {
    analysis.duration.is_some() && (analysis.extend.is_some() || analysis.inconclusive == Unclear::Pause)
}

/// How alpha is spent on what children report, where it is looked at while it runs.
pub fn while_running(analysis: &Analysis, metric: &Metric) -> End {
    let interval_ms = ms(analysis.interval_of(metric)).max(1);
    match analysis.duration {
        Some(duration) => {
            End::After { duration_ms: ms(duration), interval_ms, spending: Spending::default() }
        }
        None => End::Open { interval_ms },
    }
}
