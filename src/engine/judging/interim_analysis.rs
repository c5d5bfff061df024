//! One look: what is asked, and what is made of the answers.

use futures_util::future::join_all;

use super::{
    background, child_reports, children, compare, conditions, due_looks::DueLook, finite, interim::Reports,
    judge::ended, metric_look::MetricLook, ranges,
};
use crate::Engine;
use analysis::Verdict;
use domain::release::analysis::{InterimAnalysis, Metered, is_passed_early};
use language::analysis::{Analysis, Metric, MetricSource, Rule};
use metrics_providers::provider::Registry;

/// Makes a look. Whatever goes wrong is part of what it found.
pub(super) async fn make(engine: &Engine, registry: &Registry, due: &DueLook) -> InterimAnalysis {
    let analysis = due.strategy.analyses().nth(usize::from(due.run.block)).map(|(_, analysis)| analysis);
    let metrics = analysis.map(|analysis| analysis.metrics.as_slice()).unwrap_or_default();
    let reports = Reports::of(metrics);
    let metrics = match analysis {
        Some(analysis) => {
            let look = |metric| MetricLook { engine, registry, due, reports: &reports, analysis, metric };
            let each = metrics.iter().enumerate();
            let found = join_all(each.map(|(at, metric)| look_at(look(metric), at))).await;
            close_early(engine, registry, due, analysis, found).await
        }
        None => Vec::new(),
    };
    InterimAnalysis {
        release: due.release,
        block: due.run.block,
        number: due.run.number,
        after: due.run.looks,
        elapsed_ms: due.elapsed_ms,
        is_gathered: due.has_gathered,
        metrics,
    }
}

/// Where all comparisons have passed before their end and everybody has come, what is measured once, of all that children
/// reported, is measured now. Unless all of it passes too, it is as if it had not been.
async fn close_early(
    engine: &Engine,
    registry: &Registry,
    due: &DueLook,
    analysis: &Analysis,
    found: Vec<Metered>,
) -> Vec<Metered> {
    let is_left = |(metric, found): &(&Metric, &Metered)| {
        !metric.dry_run && found.verdict.is_none() && !found.passes_early()
    };
    let is_of_children = |metric: &Metric| matches!(metric.source, MetricSource::Children(_));
    let left = || analysis.metrics.iter().zip(&found).filter(is_left);
    let is_early = analysis.early_pass && due.has_gathered && !due.is_last;
    let can_be = left().all(|(metric, _)| is_of_children(metric) && !metric.is_beside());
    if !is_early || !can_be || left().next().is_none() || !found.iter().any(Metered::passes_early) {
        return found;
    }
    let (at_the_end, reports) = (due.at_an_early_end(), Reports::of(&analysis.metrics));
    let each = analysis.metrics.iter().zip(&found).enumerate().map(|(at, (metric, found))| {
        let (at_the_end, reports, is_left) = (&at_the_end, &reports, is_left(&(metric, found)));
        async move {
            if is_left {
                let due = at_the_end;
                look_at(MetricLook { engine, registry, due, reports, analysis, metric }, at).await
            } else {
                found.clone()
            }
        }
    });
    let closed = join_all(each).await;
    if is_passed_early(analysis, &closed) { closed } else { found }
}

/// Looks at the metric with this place in the analysis.
async fn look_at(look: MetricLook<'_>, at: usize) -> Metered {
    let MetricLook { engine, due, reports, analysis, metric, .. } = look;
    let before = due.run.metrics.get(at).cloned().unwrap_or_default();
    if before.verdict.is_some() || !look.is_due() {
        return before;
    }
    let design = due.designs.get(at).cloned().flatten();
    let found = match (&metric.source, design) {
        (_, Some(Err(fault))) => Ok(ended(before.clone(), Verdict::Error, fault)),
        (MetricSource::Query(asked), Some(Ok(design))) => {
            compare::compare(&look, asked, design, before.clone()).await
        }
        (MetricSource::Query(asked), None) => compare::measure(&look, asked, before.clone()).await,
        (MetricSource::Children(of), Some(Ok(design))) if metric.is_judged_on_the_way() => {
            child_reports::compare_versions(&look, *of, design, before.clone()).await
        }
        (MetricSource::Children(of), None)
            if !due.is_last && analysis.duration.is_some() && metric.is_judged_on_the_way() =>
        {
            let merged = reports.merged(engine, due, metric.pair.as_ref()).await;
            merged.map(|merged| ranges::so_far(merged, *of, metric, &due.strategy, before.clone()))
        }
        (MetricSource::Children(_), _) if !due.is_gathered => Ok(before.clone()),
        (MetricSource::Children(of), _) if analysis.duration.is_none() => {
            background::look(engine, due, reports, *of, metric, before.clone()).await
        }
        (MetricSource::Children(of), design) => {
            match (children::read(engine, due, metric.pair.as_ref(), None).await, design) {
                (Err(why), _) => Err(why),
                (Ok(reports), Some(Ok(design))) => {
                    child_reports::compare_with_previous(&look, *of, &reports, design, before.clone()).await
                }
                (Ok(reports), _) => Ok(match &metric.rule {
                    Rule::Condition(condition) => {
                        conditions::judge(&reports, condition, metric.failure_limit, before.clone())
                    }
                    Rule::Threshold { .. } | Rule::Compare(_) => {
                        children::measure(&reports, *of, metric, before.clone())
                    }
                }),
            }
        }
    };
    found.map_or_else(|why| note_error(before, &why, analysis), refuse_unstorable)
}

/// One more look in a row had no answer.
fn note_error(mut before: Metered, why: &str, analysis: &Analysis) -> Metered {
    before.errors = before.errors.saturating_add(1);
    before.sentence = format!("there was no answer: {why}");
    // It passes when it is seen to pass.
    if let Some(judgement) = &mut before.judgement {
        judgement.go_on();
    }
    if before.errors > analysis.consecutive_error_limit {
        if before.errors > 1 {
            before.sentence = format!("there was no answer to {} looks in a row: {why}", before.errors);
        }
        before.verdict = Some(Verdict::Error);
    }
    before
}

/// A number that is none could not be read back, and would keep the manager from starting again.
fn refuse_unstorable(found: Metered) -> Metered {
    if finite::can_be_stored(&found) {
        return found;
    }
    let sentence = format!("the data led to numbers that can't be kept; {}", found.sentence);
    ended(Metered::default(), Verdict::Error, sentence)
}
