//! What providers measured is compared: two variants, or one at two times.

use futures_util::future::try_join;

use super::{
    judge::{Keep, ended, judge},
    metric_look::MetricLook,
    previous,
    provider_query::ask,
    threshold::Range,
};
use analysis::{
    Assignment, Design, RunVariation, Sample, Stratum, Verdict, dependence::at_the_same_time,
    previous::LEAST_WINDOWS,
};
use domain::release::analysis::{Metered, Previous};
use language::analysis::{ProviderQuery, Rule};

/// Most values of one side of a metric that are kept in one run. A release is stored with them.
pub const MAX_VALUES: usize = 50_000;

/// A look at a metric with an expected range.
pub(super) async fn measure(
    look: &MetricLook<'_>,
    asked: &ProviderQuery,
    mut found: Metered,
) -> Result<Metered, String> {
    let MetricLook { registry, due, metric, .. } = *look;
    let Rule::Threshold { min, max, .. } = metric.rule else { return Ok(found) };
    let window = due.window(found.until_ms[0]);
    let (samples, until) = ask(registry, due, asked, metric.variants().0, window).await?;
    found.until_ms[0] = Some(until);
    let range = Range { min, max, failure_limit: metric.failure_limit };
    if samples.has_room() {
        let values: Vec<f64> = samples.values().collect();
        range.measure(&mut found, &values, due.is_last);
    } else {
        range.go_on(&mut found, due.is_last);
    }
    if found.verdict == Some(Verdict::NoData) && found.measured > 0 {
        let age = window.end_ms.saturating_sub(until) as f64 / 1e3;
        found.sentence = format!("{}; the last value is {age} s old", found.sentence);
    }
    Ok(found)
}

/// A look at two variants, or at one at two times.
pub(super) async fn compare(
    look: &MetricLook<'_>,
    asked: &ProviderQuery,
    design: Design,
    found: Metered,
) -> Result<Metered, String> {
    match complete_design(look, asked, design, &found).await? {
        Ok((design, previous)) => compare_samples(look, asked, design, Metered { previous, ..found }).await,
        Err(nothing) => keep_for_the_next(look, asked, nothing, found).await,
    }
}

async fn compare_samples(
    look: &MetricLook<'_>,
    asked: &ProviderQuery,
    design: Design,
    mut found: Metered,
) -> Result<Metered, String> {
    let MetricLook { engine, registry, due, analysis, metric, .. } = *look;
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
    let (stage, interval) = look.stage_and_interval();
    let mut strata = std::mem::take(&mut found.strata);
    let has_room = other.0.has_room() || canary.0.has_room();
    let [mut baseline, canary] = if found.previous.is_some() {
        [&other.0, &canary.0].map(|samples| samples.values().collect::<Vec<f64>>())
    } else {
        let points = [&other.0, &canary.0]
            .map(|samples| samples.points.iter().map(|point| (point.at_ms, point.value)).collect::<Vec<_>>());
        at_the_same_time(&points[0], &points[1])
    };
    if let Some(previous) = found.previous.as_ref().filter(|_| baseline.is_empty()) {
        let from = strata.last().map_or(0, |last| last.interval + 1);
        let every = analysis.interval_of(metric);
        baseline = previous::read_kept(engine, due, previous, asked, every, from..=interval).await?;
    }
    // An interval without a value is one as well.
    if !canary.is_empty() || !baseline.is_empty() || has_room {
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
    let mut found = judge(look, design, judgement, strata, found, Keep::All).await?;
    if let Some(previous) = &found.previous {
        found.sentence = say_against(previous, due.function(), &found);
    }
    Ok(found)
}

/// With what a query is compared: the design, complete, and the earlier release of a `PREVIOUS`. What was found once
/// stays. `Ok(Err(_))` says why there is nothing to compare with.
async fn complete_design(
    look: &MetricLook<'_>,
    asked: &ProviderQuery,
    mut design: Design,
    before: &Metered,
) -> Result<Result<(Design, Option<Previous>), String>, String> {
    let MetricLook { engine, registry, due, analysis, .. } = *look;
    if !look.metric.looks_back() {
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
async fn keep_for_the_next(
    look: &MetricLook<'_>,
    asked: &ProviderQuery,
    nothing: String,
    mut found: Metered,
) -> Result<Metered, String> {
    let MetricLook { registry, due, metric, .. } = *look;
    let window = due.window(found.until_ms[0]);
    let (samples, until) = ask(registry, due, asked, metric.variants().0, window).await?;
    found.until_ms[0] = Some(until);
    found.errors = 0;
    let kept: u64 = found.strata.iter().map(|stratum| stratum.canary.count()).sum();
    if !samples.points.is_empty() && kept + samples.points.len() as u64 <= MAX_VALUES as u64 {
        let values = Sample::Values(samples.values().collect());
        let (stage, interval) = look.stage_and_interval();
        found.strata.push(Stratum::new(stage, interval, Sample::Values(Vec::new()), values));
    }
    if due.is_last {
        return Ok(ended(found, Verdict::NoData, nothing));
    }
    found.sentence = nothing;
    Ok(found)
}

/// What was found, with what it was compared with.
fn say_against(previous: &Previous, function: &str, found: &Metered) -> String {
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
