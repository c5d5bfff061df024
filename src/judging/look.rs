//! One look: what is asked, and what is made of the answers.

use std::time::Duration;

use futures_util::future::{join_all, try_join};

use super::{agenda::Due, children, threshold::Range};
use crate::{
    analysis::{Design, Judgement, Occasion, Sample, Stratum, Verdict},
    engine::Engine,
    provider::{Ask, Registry, Samples, Window},
    release::analysis::{Look, Metered},
    strategy::analysis::{Analysis, Asked, Metric, Rule, Source, Variant},
};

/// Most values of one side of a metric that are kept in one run. A release is stored with them.
pub const MAX_VALUES: usize = 50_000;

/// The comparison of so much takes less; what takes longer is cut off with the task.
const LONGEST_JUDGEMENT: Duration = Duration::from_mins(5);

/// Makes a look. Whatever goes wrong is part of what it found.
pub(super) async fn make(engine: &Engine, registry: &Registry, due: &Due) -> Look {
    let analysis = due.strategy.analyses().nth(usize::from(due.run.block)).map(|(_, analysis)| analysis);
    let metrics = analysis.map(|analysis| analysis.metrics.as_slice()).unwrap_or_default();
    let metrics = match analysis {
        Some(analysis) => {
            let each = metrics.iter().enumerate();
            join_all(each.map(|(at, metric)| one(engine, registry, due, analysis, metric, at))).await
        }
        None => Vec::new(),
    };
    Look {
        release: due.release,
        block: due.run.block,
        number: due.run.number,
        after: due.run.looks,
        elapsed_ms: due.elapsed_ms,
        metrics,
    }
}

async fn one(
    engine: &Engine,
    registry: &Registry,
    due: &Due,
    analysis: &Analysis,
    metric: &Metric,
    at: usize,
) -> Metered {
    let before = due.run.metrics.get(at).cloned().unwrap_or_default();
    if before.verdict.is_some() {
        return before;
    }
    let design = due.designs.get(at).cloned().flatten();
    let found = match (&metric.source, design) {
        (_, Some(Err(fault))) => Ok(ended(before.clone(), Verdict::Error, fault)),
        (Source::Query(asked), Some(Ok(design))) => {
            compare(registry, due, analysis, metric, asked, design, before.clone()).await
        }
        (Source::Query(asked), None) => measure(registry, due, metric, asked, before.clone()).await,
        (Source::Children(of), design) => match &due.gathered {
            None => Ok(before.clone()),
            Some((members, slot)) => {
                let reports = children::read(engine, due, members, *slot).await;
                match (reports, design) {
                    (Err(why), _) => Err(why),
                    (Ok(reports), Some(Ok(design))) => {
                        let strata = children::strata(&reports, *of, &due.strategy);
                        judged(design, None, strata, due, before.clone(), Keep::Nothing).await
                    }
                    (Ok(reports), _) => Ok(children::measure(&reports, *of, metric, before.clone())),
                }
            }
        },
    };
    found.map_or_else(|why| erred(before, &why, analysis), storable)
}

/// With its verdict.
fn ended(mut found: Metered, verdict: Verdict, sentence: String) -> Metered {
    found.verdict = Some(verdict);
    found.sentence = sentence;
    found
}

/// One more look in a row had no answer.
fn erred(mut before: Metered, why: &str, analysis: &Analysis) -> Metered {
    before.errors = before.errors.saturating_add(1);
    before.sentence = format!("there was no answer: {why}");
    if before.errors > analysis.consecutive_error_limit {
        if before.errors > 1 {
            before.sentence = format!("there was no answer to {} looks in a row: {why}", before.errors);
        }
        before.verdict = Some(Verdict::Error);
    }
    before
}

/// What could not be read back would keep the manager from starting again.
fn storable(found: Metered) -> Metered {
    let text = serde_json::to_string(&found).unwrap_or_default();
    if serde_json::from_str::<Metered>(&text).is_ok() {
        return found;
    }
    let sentence = format!("the data led to numbers that can't be kept; {}", found.sentence);
    ended(Metered::default(), Verdict::Error, sentence)
}

/// What there is new of one variant: its values, and up to when there are any.
async fn fetch(
    registry: &Registry,
    due: &Due,
    asked: &Asked,
    variant: Variant,
    until: Option<i64>,
) -> Result<(Samples, i64), String> {
    let provider = registry.get(&asked.provider);
    let provider = provider.ok_or_else(|| {
        format!("the provider {:?} is not configured any more (analysis.providers)", asked.provider)
    })?;
    let function =
        due.stage.and_then(|stage| due.strategy.stages.get(stage)).map_or(0, |stage| stage.function);
    let function = due.strategy.functions.get(function).map_or("", |function| function.name.as_str());
    let text = asked.text(variant, function, provider.escape()).map_err(|unbound| unbound.to_string())?;
    let end_ms = due.now.wall_ms;
    let since = i64::try_from(due.elapsed_ms).unwrap_or(i64::MAX);
    let start_ms = until.unwrap_or_else(|| end_ms.saturating_sub(since));
    // The wall may have been turned back.
    if start_ms >= end_ms {
        return Ok((Samples::default(), start_ms));
    }
    let ask = Ask { text: &text, json_path: asked.json_path.as_deref() };
    let found = provider.fetch(ask, Window { start_ms, end_ms }).await;
    let found = found.map_err(|error| format!("{}: {error}", asked.provider))?;
    let until = found.points.iter().map(|point| point.at_ms).max().unwrap_or(start_ms);
    Ok((found, until))
}

/// A look at a metric with an expected range.
async fn measure(
    registry: &Registry,
    due: &Due,
    metric: &Metric,
    asked: &Asked,
    mut found: Metered,
) -> Result<Metered, String> {
    let Rule::Threshold { min, max, .. } = metric.rule else { return Ok(found) };
    let (samples, until) = fetch(registry, due, asked, metric.variants().0, found.until_ms[0]).await?;
    found.until_ms[0] = Some(until);
    let values: Vec<f64> = samples.values().collect();
    Range { min, max, failure_limit: metric.failure_limit }.measure(&mut found, &values, due.is_last);
    Ok(found)
}

/// A look at two variants.
async fn compare(
    registry: &Registry,
    due: &Due,
    analysis: &Analysis,
    metric: &Metric,
    asked: &Asked,
    design: Design,
    mut found: Metered,
) -> Result<Metered, String> {
    let (canary, Some(other)) = metric.variants() else { return Ok(found) };
    let [canary_until, other_until] = found.until_ms;
    let (canary, other) = try_join(
        fetch(registry, due, asked, canary, canary_until),
        fetch(registry, due, asked, other, other_until),
    )
    .await?;
    found.until_ms = [Some(canary.1), Some(other.1)];
    found.errors = 0;
    let values = |samples: &Samples| Sample::Values(samples.values().collect());
    let interval_ms = (analysis.interval.as_millis() as u64).max(1);
    let interval =
        if due.is_last { due.elapsed_ms.div_ceil(interval_ms) } else { due.elapsed_ms / interval_ms };
    let stage = due.stage.and_then(|stage| due.strategy.stages.get(stage));
    let stage = stage.map_or("release", |stage| stage.name.as_str());
    let mut strata = std::mem::take(&mut found.strata);
    if !canary.0.points.is_empty() || !other.0.points.is_empty() {
        let interval = interval.saturating_sub(1);
        strata.push(Stratum::new(stage, interval, values(&other.0), values(&canary.0)));
    }
    let kept: u64 = strata.iter().map(|stratum| stratum.canary.count().max(stratum.baseline.count())).sum();
    if kept > MAX_VALUES as u64 {
        let sentence = format!("there are more than {MAX_VALUES} values: ask for fewer, with a longer step");
        return Ok(ended(found, Verdict::Error, sentence));
    }
    let judgement = found.judgement.take();
    judged(design, judgement, strata, due, found, Keep::All).await
}

/// What of a judgement is kept for the next look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    All,
    /// There is no next one.
    Nothing,
}

/// Judges beside everything else: it can take a core for a while.
async fn judged(
    design: Design,
    judgement: Option<Judgement>,
    strata: Vec<Stratum>,
    due: &Due,
    mut found: Metered,
    keep: Keep,
) -> Result<Metered, String> {
    let (elapsed_ms, is_last) = (due.elapsed_ms, due.is_last);
    let judging = tokio::task::spawn_blocking(move || {
        let mut judgement = match judgement {
            Some(judgement) => judgement,
            None => Judgement::new(design).map_err(|fault| fault.to_string())?,
        };
        let occasion = if is_last { Occasion::Last } else { Occasion::Look };
        let finding = judgement.look(&strata, elapsed_ms, occasion);
        Ok::<_, String>((judgement, strata, finding))
    });
    let judged = tokio::time::timeout(LONGEST_JUDGEMENT, judging).await;
    let judged: Result<_, String> = match judged {
        Ok(Ok(judged)) => judged,
        Ok(Err(error)) => {
            tracing::error!(%error, release = due.id, "a comparison broke off");
            let sentence = "the comparison broke off; see the manager's log".to_owned();
            return Ok(ended(found, Verdict::Error, sentence));
        }
        Err(_) => return Err("the comparison took too long".to_owned()),
    };
    let (judgement, strata, finding) = judged?;
    found.verdict = finding.verdict;
    found.sentence.clone_from(&finding.evidence.sentence);
    found.evidence = Some(Box::new(finding.evidence));
    if keep == Keep::All {
        found.judgement = Some(judgement);
        found.strata = strata;
    }
    Ok(found)
}
