//! One look: what is asked, and what is made of the answers.

use std::time::Duration;

use futures_util::future::{join_all, try_join};

use super::{
    agenda::Due, ask::ask, background, children, conditions, interim::Reports, previous, ranges,
    threshold::Range,
};
use crate::{Engine, stored};
use analysis::{
    Assignment, Design, Judgement, Occasion, RunVariation, Sample, Stratum, Verdict, effects::ChildEffects,
    previous::LEAST_WINDOWS,
};
use heart::release::analysis::{Look, Metered, Previous, is_passed_early, while_running};
use language::analysis::{Analysis, ChildMetric, Metric, MetricSource, ProviderQuery, Rule};
use ports::provider::{Registry, Samples};

/// Most values of one side of a metric that are kept in one run. A release is stored with them.
pub const MAX_VALUES: usize = 50_000;

/// The comparison of so much takes less; what takes longer is cut off with the task.
const LONGEST_JUDGEMENT: Duration = Duration::from_mins(5);

/// Makes a look. Whatever goes wrong is part of what it found.
pub(super) async fn make(engine: &Engine, registry: &Registry, due: &Due) -> Look {
    let analysis = due.strategy.analyses().nth(usize::from(due.run.block)).map(|(_, analysis)| analysis);
    let metrics = analysis.map(|analysis| analysis.metrics.as_slice()).unwrap_or_default();
    let reports = Reports::default();
    let metrics = match analysis {
        Some(analysis) => {
            let each = metrics.iter().enumerate();
            let each = each.map(|(at, metric)| one(engine, registry, due, &reports, analysis, metric, at));
            let found = join_all(each).await;
            close(engine, registry, due, analysis, found).await
        }
        None => Vec::new(),
    };
    Look {
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
async fn close(
    engine: &Engine,
    registry: &Registry,
    due: &Due,
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
    let (at_the_end, reports) = (due.at_an_early_end(), Reports::default());
    let each = analysis.metrics.iter().zip(&found).enumerate().map(|(at, (metric, found))| {
        let (at_the_end, reports, is_left) = (&at_the_end, &reports, is_left(&(metric, found)));
        async move {
            if is_left {
                one(engine, registry, at_the_end, reports, analysis, metric, at).await
            } else {
                found.clone()
            }
        }
    });
    let closed = join_all(each).await;
    if is_passed_early(analysis, &closed) { closed } else { found }
}

async fn one(
    engine: &Engine,
    registry: &Registry,
    due: &Due,
    reports: &Reports,
    analysis: &Analysis,
    metric: &Metric,
    at: usize,
) -> Metered {
    let before = due.run.metrics.get(at).cloned().unwrap_or_default();
    if before.verdict.is_some() || !is_due(due, analysis, metric) {
        return before;
    }
    let design = due.designs.get(at).cloned().flatten();
    let found = match (&metric.source, design) {
        (_, Some(Err(fault))) => Ok(ended(before.clone(), Verdict::Error, fault)),
        (MetricSource::Query(asked), Some(Ok(design))) => {
            let with = with(engine, registry, due, analysis, metric, asked, design, &before).await;
            match with {
                Ok(Ok((design, previous))) => {
                    let before = Metered { previous, ..before.clone() };
                    compare(engine, registry, due, analysis, metric, asked, design, before).await
                }
                Ok(Err(nothing)) => {
                    alone(registry, due, analysis, metric, asked, nothing, before.clone()).await
                }
                Err(why) => Err(why),
            }
        }
        (MetricSource::Query(asked), None) => measure(registry, due, metric, asked, before.clone()).await,
        (MetricSource::Children(of), Some(Ok(design))) if metric.is_judged_on_the_way() => {
            beside(engine, due, reports, analysis, metric, *of, design, before.clone()).await
        }
        (MetricSource::Children(of), None)
            if !due.is_last && analysis.duration.is_some() && metric.is_judged_on_the_way() =>
        {
            let merged = reports.merged(engine, due).await;
            merged.map(|merged| ranges::so_far(merged, *of, metric, &due.strategy, before.clone()))
        }
        (MetricSource::Children(_), _) if !due.is_gathered => Ok(before.clone()),
        (MetricSource::Children(of), _) if analysis.duration.is_none() => {
            background::look(engine, due, reports, *of, metric, before.clone()).await
        }
        (MetricSource::Children(of), design) => match (children::read(engine, due, None).await, design) {
            (Err(why), _) => Err(why),
            (Ok(reports), Some(Ok(design))) => {
                since(engine, due, metric, *of, &reports, design, before.clone()).await
            }
            (Ok(reports), _) => Ok(match &metric.rule {
                Rule::Condition(condition) => {
                    conditions::judge(&reports, condition, metric.failure_limit, before.clone())
                }
                _ => children::measure(&reports, *of, metric, before.clone()),
            }),
        },
    };
    found.map_or_else(|why| erred(before, &why, analysis), storable)
}

/// Whether an interval of a metric's own is over since the last look at the block.
fn is_due(due: &Due, analysis: &Analysis, metric: &Metric) -> bool {
    let interval = interval_ms(analysis, metric);
    due.is_last || metric.interval.is_none() || due.elapsed_ms / interval > due.run.looked_ms / interval
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

/// What could not be read back would keep the manager from starting again.
fn storable(found: Metered) -> Metered {
    if stored::json(&found).is_ok_and(|text| serde_json::from_str::<Metered>(&text).is_ok()) {
        return found;
    }
    let sentence = format!("the data led to numbers that can't be kept; {}", found.sentence);
    ended(Metered::default(), Verdict::Error, sentence)
}

/// A look at what children have reported so far. Nobody is waited for but at the end of a stage: before it there is a look
/// only if somebody reports while the stage goes on, or all have come and it may pass early; where there was none until the end, that
/// is the only one.
#[expect(clippy::too_many_arguments, reason = "what a look is made of, handed through")]
async fn beside(
    engine: &Engine,
    due: &Due,
    reports: &Reports,
    analysis: &Analysis,
    metric: &Metric,
    of: ChildMetric,
    design: Design,
    mut found: Metered,
) -> Result<Metered, String> {
    // Whoever is to be waited for is on the way.
    if due.is_last && !due.is_gathered {
        return Ok(found);
    }
    let merged = reports.merged(engine, due).await?;
    let is_first = found.judgement.is_none();
    let ends = analysis.duration.is_some();
    if ends && is_first && due.is_last {
        merged.append(&mut found, of, &due.strategy, 0, true)?;
        let strata = std::mem::take(&mut found.strata);
        let judgement = Some(told(None, design.clone(), merged.children(of))?);
        let mut found =
            judged(design, judgement, strata, due, found, Keep::Nothing, metric.failure_limit).await?;
        merged.off.show(engine, &mut found);
        return Ok(tidy(found));
    }
    let may_end = analysis.early_pass && due.has_gathered;
    if ends && is_first && !merged.is_interim && !may_end {
        return Ok(found);
    }
    let interval = (due.elapsed_ms / interval_ms(analysis, metric)).saturating_sub(1);
    let is_news = match merged.append(&mut found, of, &due.strategy, interval, due.is_last) {
        Ok(is_news) => is_news,
        Err(sentence) => return Ok(ended(found, Verdict::Error, sentence)),
    };
    found.errors = 0;
    if !is_news && !due.is_last {
        return Ok(found);
    }
    let design = Design { end: while_running(analysis, metric), ..design };
    let (judgement, strata) = (found.judgement.take(), std::mem::take(&mut found.strata));
    let judgement = Some(told(judgement, design.clone(), merged.children(of))?);
    let keep = if due.is_last { Keep::Nothing } else { Keep::All };
    let mut found = judged(design, judgement, strata, due, found, keep, metric.failure_limit).await?;
    merged.off.show(engine, &mut found);
    Ok(tidy(found))
}

/// What is not kept needs no names.
fn tidy(mut found: Metered) -> Metered {
    if found.strata.is_empty() {
        found.parts.clear();
    }
    found
}

/// A judgement that is told how children differ.
fn told(judgement: Option<Judgement>, design: Design, children: ChildEffects) -> Result<Judgement, String> {
    let judgement = judgement.map_or_else(|| Judgement::new(design), Ok);
    let mut judgement = judgement.map_err(|fault| fault.to_string())?;
    judgement.set_children(children);
    Ok(judgement)
}

fn interval_ms(analysis: &Analysis, metric: &Metric) -> u64 {
    (analysis.interval_of(metric).as_millis() as u64).max(1)
}

/// A look at a metric with an expected range.
async fn measure(
    registry: &Registry,
    due: &Due,
    metric: &Metric,
    asked: &ProviderQuery,
    mut found: Metered,
) -> Result<Metered, String> {
    let Rule::Threshold { min, max, .. } = metric.rule else { return Ok(found) };
    let window = due.window(found.until_ms[0]);
    let (samples, until) = ask(registry, due, asked, metric.variants().0, window).await?;
    found.until_ms[0] = Some(until);
    let values: Vec<f64> = samples.values().collect();
    Range { min, max, failure_limit: metric.failure_limit }.measure(&mut found, &values, due.is_last);
    Ok(found)
}

/// The look at what children reported, beside what they reported of the last release of the function that ended well.
async fn since(
    engine: &Engine,
    due: &Due,
    metric: &Metric,
    of: ChildMetric,
    reports: &[children::Report],
    design: Design,
    found: Metered,
) -> Result<Metered, String> {
    let previous = match previous::find(engine, due).await? {
        Ok(previous) => previous,
        Err(nothing) => return Ok(ended(found, Verdict::NoData, nothing)),
    };
    let strata = children::strata_since(engine, &previous.release, reports, of, &due.strategy).await?;
    let Some(strata) = strata else {
        let sentence = format!("release {} is not kept any more", previous.release);
        return Ok(ended(found, Verdict::NoData, sentence));
    };
    let is_known = design.run_variation != Some(RunVariation::Unknown);
    let limit = metric.failure_limit;
    let mut found = judged(design, None, strata, due, found, Keep::Nothing, limit).await?;
    let sentence = match found.verdict {
        Some(Verdict::NoData) => "no child reported both times what can be compared".to_owned(),
        Some(Verdict::Inconclusive) if !is_known => format!(
            "how much {} varies from run to run isn't known: write it down, as in runVariation: 3%",
            due.function()
        ),
        _ => found.sentence,
    };
    found.sentence = format!("against release {}: {sentence}", previous.release);
    found.previous = Some(previous);
    Ok(found)
}

/// With what a query is compared: the design, complete, and the earlier release of a `PREVIOUS`. What was found once
/// stays. `Ok(Err(_))` says why there is nothing to compare with.
#[expect(clippy::too_many_arguments, reason = "what a look is made of, handed through")]
async fn with(
    engine: &Engine,
    registry: &Registry,
    due: &Due,
    analysis: &Analysis,
    metric: &Metric,
    asked: &ProviderQuery,
    mut design: Design,
    before: &Metered,
) -> Result<Result<(Design, Option<Previous>), String>, String> {
    if !metric.looks_back() {
        return Ok(Ok((design, None)));
    }
    let previous = match before.previous.clone() {
        Some(previous) => previous,
        None => match previous::find(engine, due).await? {
            Ok(previous) => previous,
            Err(nothing) => return Ok(Err(nothing)),
        },
    };
    // A judgement that is there keeps its own.
    if before.judgement.is_none() && design.run_variation == Some(RunVariation::Unknown) {
        design.run_variation = Some(previous::variation(registry, due, analysis, asked).await?);
    }
    Ok(Ok((design, Some(previous))))
}

/// A look at what has nothing to be compared with: it is measured nevertheless, for the next release that is compared with this
/// one may find that the provider has forgotten it.
async fn alone(
    registry: &Registry,
    due: &Due,
    analysis: &Analysis,
    metric: &Metric,
    asked: &ProviderQuery,
    nothing: String,
    mut found: Metered,
) -> Result<Metered, String> {
    let window = due.window(found.until_ms[0]);
    let (samples, until) = ask(registry, due, asked, metric.variants().0, window).await?;
    found.until_ms[0] = Some(until);
    found.errors = 0;
    let kept: u64 = found.strata.iter().map(|stratum| stratum.canary.count()).sum();
    if !samples.points.is_empty() && kept + samples.points.len() as u64 <= MAX_VALUES as u64 {
        let values = Sample::Values(samples.values().collect());
        let (stage, interval) = place(due, analysis, metric);
        found.strata.push(Stratum::new(stage, interval, Sample::Values(Vec::new()), values));
    }
    if due.is_last {
        return Ok(ended(found, Verdict::NoData, nothing));
    }
    found.sentence = nothing;
    Ok(found)
}

/// Under which name, and in which interval, values of this look are kept.
fn place<'d>(due: &'d Due, analysis: &Analysis, metric: &Metric) -> (&'d str, u64) {
    let interval_ms = interval_ms(analysis, metric);
    let interval =
        if due.is_last { due.elapsed_ms.div_ceil(interval_ms) } else { due.elapsed_ms / interval_ms };
    let stage = due.stage.and_then(|stage| due.strategy.stages.get(stage));
    (stage.map_or("release", |stage| stage.name.as_str()), interval.saturating_sub(1))
}

/// A look at two variants, or at one at two times.
#[expect(clippy::too_many_arguments, reason = "what a look is made of, handed through")]
async fn compare(
    engine: &Engine,
    registry: &Registry,
    due: &Due,
    analysis: &Analysis,
    metric: &Metric,
    asked: &ProviderQuery,
    design: Design,
    mut found: Metered,
) -> Result<Metered, String> {
    let (canary, Some(other)) = metric.variants() else { return Ok(found) };
    let [canary_until, other_until] = found.until_ms;
    let other_window = match &found.previous {
        Some(previous) => previous::window(previous, analysis, due, other_until),
        None => due.window(other_until),
    };
    let (canary, other) = try_join(
        ask(registry, due, asked, canary, due.window(canary_until)),
        ask(registry, due, asked, other, other_window),
    )
    .await?;
    found.until_ms = [Some(canary.1), Some(other.1)];
    found.errors = 0;
    let values = |samples: &Samples| samples.values().collect::<Vec<f64>>();
    let (stage, interval) = place(due, analysis, metric);
    let mut strata = std::mem::take(&mut found.strata);
    let (mut baseline, canary) = (values(&other.0), values(&canary.0));
    if let Some(previous) = found.previous.as_ref().filter(|_| baseline.is_empty()) {
        let from = strata.last().map_or(0, |last| last.interval + 1);
        let every = analysis.interval_of(metric);
        baseline = previous::kept(engine, due, previous, asked, every, from..=interval).await?;
    }
    if !canary.is_empty() || !baseline.is_empty() {
        let mut stratum = Stratum::new(stage, interval, Sample::Values(baseline), Sample::Values(canary));
        // Side by side it is users that were assigned, and a provider tells nothing of them.
        if found.previous.is_none() && due.strategy.is_sticky(due.stage) {
            stratum.assignment = Assignment::User;
        }
        strata.push(stratum);
    }
    let kept: u64 = strata.iter().map(|stratum| stratum.canary.count().max(stratum.baseline.count())).sum();
    if kept > MAX_VALUES as u64 {
        let sentence = format!("there are more than {MAX_VALUES} values: ask for fewer, with a longer step");
        return Ok(ended(found, Verdict::Error, sentence));
    }
    let judgement = found.judgement.take();
    let mut found = judged(design, judgement, strata, due, found, Keep::All, metric.failure_limit).await?;
    if let Some(previous) = &found.previous {
        found.sentence = against(previous, due.function(), &found);
    }
    Ok(found)
}

/// What was found, with what it was compared with.
fn against(previous: &Previous, function: &str, found: &Metered) -> String {
    let is_gone = found.evidence.as_ref().is_some_and(|evidence| evidence.baseline.count == 0);
    if found.verdict == Some(Verdict::NoData) && is_gone {
        return format!(
            "of release {} the provider has no values any more: let it keep them until the next release",
            previous.release
        );
    }
    let variation = found.judgement.as_ref().and_then(|judgement| judgement.design().run_variation.as_ref());
    let known = match variation {
        Some(RunVariation::Unknown) => 0,
        Some(RunVariation::Windows(weeks)) => weeks.len(),
        Some(RunVariation::Given(_)) | None => LEAST_WINDOWS,
    };
    if found.verdict == Some(Verdict::Inconclusive) && known < LEAST_WINDOWS {
        return format!(
            "against release {}: how much {function} varies from run to run isn't known: {known} of the same hours of \
             earlier weeks have values, and it takes {LEAST_WINDOWS}; wait, or write it down, as in runVariation: 3%",
            previous.release
        );
    }
    format!("against release {}: {}", previous.release, found.sentence)
}

/// A crossing of the boundary is borne, for more of them are demanded. At the end nothing is shown by it.
fn bear(judgement: &mut Judgement, found: &mut Metered, limit: u32, is_last: bool) {
    judgement.bear_crossing();
    found.verdict = is_last.then_some(Verdict::Inconclusive);
    found.sentence = format!(
        "the boundary was crossed {} of {} times: {}",
        found.outside,
        limit.saturating_add(1),
        found.sentence
    );
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
    limit: u32,
) -> Result<Metered, String> {
    let calls = strata.iter().map(|stratum| stratum.baseline.count() + stratum.canary.count()).sum();
    let (elapsed_ms, is_last) = (due.elapsed_ms, due.is_last || due.is_enough(calls));
    let judging = tokio::task::spawn_blocking(move || {
        let mut judgement = match judgement {
            Some(judgement) => judgement,
            None => Judgement::new(design).map_err(|fault| fault.to_string())?,
        };
        // It has passed, and others have not: it may still fail.
        judgement.go_on();
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
    let (mut judgement, strata, finding) = judged?;
    found.verdict = finding.verdict.filter(|_| !judgement.is_early_pass());
    found.sentence.clone_from(&finding.evidence.sentence);
    found.evidence = Some(Box::new(finding.evidence));
    if found.verdict == Some(Verdict::Fail) {
        found.outside += 1;
        if found.outside <= limit {
            bear(&mut judgement, &mut found, limit, is_last);
        }
    }
    // What ended undecided may go on.
    let is_undecided = matches!(found.verdict, Some(Verdict::Inconclusive | Verdict::NoData));
    if keep == Keep::All || (is_undecided && judgement.design().reserve > 0.0) {
        found.judgement = Some(judgement);
        found.strata = strata;
    }
    Ok(found)
}
