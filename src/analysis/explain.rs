//! A decision with everything it rests on, and in one sentence.

use std::{borrow::Cow, cell::RefCell};

use super::{
    clusters::LEAST_GROUPS,
    data::{Counts, Sample, Stratum},
    design::{Design, End, Question, Tolerance},
    dist::{binomial_cdf, normal_z},
    estimate::{Compared, Estimate, Search, quantile, superiority},
    evidence::{BelowFloor, Effect, Evidence, SideSummary, TestEvidence, Verdict},
    exact::Distributions,
    group::{Group, Pooled},
    hypothesis::{Hypothesis, HypothesisKind, Inflation},
    judge::{Decision, Judgement, Obstacle},
    root::falling,
    split::Split,
};

/// The probability with which the calls that are quoted decide.
const MORE_CALLS_PROBABILITY: f64 = 0.8;

/// What is demanded hardly depends on how many calls there will be: so often it is worked out anew.
const MORE_CALLS_ROUNDS: usize = 8;

/// Smaller probabilities are not told apart.
const LEAST_P: f64 = 1e-300;

/// More calls than this are as good as never.
const MAX_MORE_CALLS: f64 = 1e12;

/// A median of the baseline, where ranks are judged.
pub(super) fn median(groups: &[Group]) -> f64 {
    let largest = groups.iter().max_by(|a, b| a.baseline.count().total_cmp(&b.baseline.count()));
    largest.and_then(|group| quantile(&group.baseline, 0.5)).unwrap_or(0.0)
}

/// Everything that a decision rests on.
pub fn evidence(judgement: &Judgement, strata: &[Stratum], decision: &Decision) -> Evidence {
    let strata = &strata[..decision.visible.min(strata.len())];
    // Off the grid the latest data aren't part of the state, and not of what is shown either.
    let mut judged = judgement.clone();
    let effect = match decision.obstacle {
        Some(Obstacle::Fault(_) | Obstacle::NoData { .. }) => None,
        _ => effect(&judged, strata, decision),
    };
    let tests = judged
        .hypotheses
        .iter_mut()
        .enumerate()
        .map(|(at, hypothesis)| {
            let inflation = decision.inflations.get(at).copied().unwrap_or(Inflation::NONE);
            let mut test = test_evidence(hypothesis, inflation, &judgement.design, decision.counted);
            if let Some((p, level)) = judgement.extended_p(at, inflation) {
                (test.boundary, test.p, test.level) = (None, p, Some(level));
            }
            test
        })
        .collect();
    let faulty = matches!(decision.obstacle, Some(Obstacle::Fault(_)));
    let side = |side: fn(&Stratum) -> &Sample| {
        if faulty { SideSummary::default() } else { summary(strata.iter().map(side)) }
    };
    let mut evidence = Evidence {
        sentence: String::new(),
        baseline: side(|s| &s.baseline),
        canary: side(|s| &s.canary),
        effect: effect.map(|(effect, _)| effect),
        tests,
        looks: judgement.looks,
        below_floor: below_floor(judgement),
        planned_looks: judgement.design.looks().filter(|_| !judgement.is_extended()),
        early: judgement.is_early_pass(),
        alpha: judgement.design.alpha,
        alpha_spent: judgement.spent,
        more_calls: None,
        children: judgement.children.between(),
        split: if faulty { None } else { judgement.splits.evidence(judgement.design.alpha) },
    };
    if let Some((_, estimate)) = effect
        && decision.verdict == Some(Verdict::Inconclusive)
        && decision.obstacle.is_none()
        && effect
            .is_some_and(|(effect, _)| effect.error.is_none_or(|error| error < tolerance(&judgement.design)))
    {
        evidence.more_calls = more_calls(judgement, &evidence, estimate);
    }
    evidence.sentence = sentence(&judgement.design, decision, &evidence);
    if let (Some(few), None) = (few_children(&evidence), &decision.obstacle) {
        evidence.sentence.push_str(&few);
    }
    evidence
}

/// What a verdict on few children is about.
fn few_children(evidence: &Evidence) -> Option<String> {
    let between = evidence.children.filter(|between| between.deviation.is_none())?;
    Some(match between.children {
        1 => " This holds for the one child that measured enough of both versions.".to_owned(),
        few => format!(
            " This holds for the {few} children that measured enough of both versions: they are too few to tell how \
             others differ."
        ),
    })
}

fn effect(judgement: &Judgement, strata: &[Stratum], decision: &Decision) -> Option<(Effect, Estimate)> {
    let (at, hypothesis) =
        judgement.hypotheses.iter().enumerate().find(|(_, h)| h.kind != HypothesisKind::NonZero)?;
    let inflation = decision.inflations.get(at).copied().unwrap_or(Inflation::NONE);
    let relative = matches!(judgement.design.tolerance, Tolerance::Ratio(_));
    let at_hand = decision.groups.get(at).filter(|groups| !groups.is_empty());
    let groups = at_hand.map_or_else(|| judgement.groups(hypothesis, strata).into(), Cow::from);
    let counted = matches!(hypothesis.kind, HypothesisKind::Rate);
    let compared = if counted { Compared::counts(hypothesis, strata) } else { Compared::Groups(&groups) };
    let once = judgement.design.end == End::Once;
    let exact = if once { Distributions::at_once() } else { Distributions::between_looks() };
    let search = Search { hypothesis, compared, inflation, relative, exact: RefCell::new(exact) };
    let alpha = judgement.pass_level();
    let estimate = search.estimate(alpha)?;
    let out = |x: f64| if relative { x.exp() } else { x };
    let error = hypothesis.error();
    let low = |low: f64| if relative { (out(low) - error).max(0.0) } else { low - error };
    let effect = Effect {
        estimate: out(estimate.middle),
        low: estimate.low.map(low),
        high: estimate.high.map(|high| out(high) + error),
        error: Some(error).filter(|error| *error > 0.0),
        confidence: 1.0 - 2.0 * alpha,
        superiority: if counted { None } else { superiority(&groups) },
        relative,
    };
    Some((effect, estimate))
}

fn test_evidence(
    hypothesis: &mut Hypothesis,
    inflation: Inflation,
    design: &Design,
    counted: bool,
) -> TestEvidence {
    let tails = hypothesis.tails(inflation);
    let open = matches!(design.end, End::Open { .. });
    let looked = counted && !open && hypothesis.bounds.last().is_some();
    let boundary = looked.then(|| hypothesis.bounds.boundary()).filter(|z| z.is_finite());
    let way = if hypothesis.high { "higher" } else { "lower" };
    let what = match hypothesis.kind {
        HypothesisKind::Rank => "values".to_owned(),
        HypothesisKind::Rest => "values other than 0".to_owned(),
        HypothesisKind::NonZero => "share of values other than 0".to_owned(),
        HypothesisKind::Tail { q } => format!("values beyond the {}", quantile_name(q)),
        HypothesisKind::Rate => "rate".to_owned(),
    };
    TestEvidence {
        name: format!("{what} {way} by more than the tolerance"),
        z: tails.z,
        boundary,
        p: if open { hypothesis.anytime_p(inflation) } else { tails.upper },
        p_pass: hypothesis.for_pass().tails(inflation).lower,
        level: if open { Some(hypothesis.alpha) } else { boundary.map(super::dist::normal_sf) },
        pass_level: hypothesis.passing.level(),
        information: hypothesis.information(inflation),
        crossed: hypothesis.crossed,
    }
}

fn summary<'a>(samples: impl Iterator<Item = &'a Sample>) -> SideSummary {
    let mut values: Vec<f64> = Vec::new();
    let mut counts = Counts::default();
    let mut count = 0;
    let mut others: Vec<&Sample> = Vec::new();
    for sample in samples {
        count += sample.count();
        match sample {
            Sample::Values(more) => values.extend_from_slice(more),
            Sample::Histogram(_) | Sample::Measured(_) => others.push(sample),
            Sample::Counts(more) => {
                counts.calls += more.calls;
                counts.events += more.events;
            }
        }
    }
    if counts.calls > 0 {
        let rate = Some(counts.events as f64 / counts.calls as f64);
        return SideSummary { count, events: Some(counts.events), rate, ..SideSummary::default() };
    }
    if others.is_empty() {
        let [p50, p95, p99] = quantiles(values);
        return SideSummary { count, p50, p95, p99, ..SideSummary::default() };
    }
    let pooled = Pooled::of(others.into_iter(), false);
    let mean = pooled.mean();
    let side = pooled.into_side();
    let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|q| quantile(&side, q));
    SideSummary { count, mean, p50, p95, p99, ..SideSummary::default() }
}

/// What a pass by the floor rests on, if there is one.
fn below_floor(judgement: &Judgement) -> Option<BelowFloor> {
    let Question::Rate { floor } = judgement.design.question else { return None };
    let hypothesis = judgement.hypotheses.iter().find(|hypothesis| hypothesis.high)?;
    let canary = hypothesis.rates().canary;
    let half = if judgement.design.passes_early() {
        hypothesis.passing.level_of_floor()?
    } else {
        0.5 * judgement.design.planned_alpha()
    };
    let is_below =
        floor > 0.0 && canary.calls > 0 && binomial_cdf(canary.events, canary.calls, floor) <= half;
    let bound = |rate: f64| binomial_cdf(canary.events, canary.calls, rate.clamp(0.0, 1.0)) - half;
    let at_most = is_below.then(|| falling(bound, floor, 0.1 * floor, 1.0, 0.0)).flatten()?;
    // All other directions have to be safe by themselves.
    (judgement.hypotheses.len() == 1).then_some(BelowFloor { floor, at_most })
}

/// p50, p95, p99 without sorting all.
fn quantiles(mut values: Vec<f64>) -> [Option<f64>; 3] {
    [0.5, 0.95, 0.99].map(|q| {
        let last = values.len().checked_sub(1)?;
        let at = q * last as f64;
        let (_, below, above) = values.select_nth_unstable_by(at.floor() as usize, f64::total_cmp);
        let below = *below;
        let next = above.iter().copied().fold(f64::INFINITY, f64::min);
        Some(if at.fract() > 0.0 { below + (next - below) * at.fract() } else { below })
    })
}

/// So many more calls decide with a probability of 80 %, given what is known of the difference: neither that it is as
/// estimated is taken for granted, nor that the estimate then is. `None`: no number can be told, for the estimate may as
/// well lie on the other side of the tolerance.
///
/// With r times as many calls the estimate lies within the square root of (r − 1)/r standard errors of today's, its own being
/// 1/√r of today's (predictive distribution under a flat prior); it decides if it is z standard errors of its own from the
/// tolerance. So r is the least with d ≥ z/√r + z₈₀ √((r − 1)/r), where d is today's distance in standard errors; with 1/√r =
/// sin φ that is one sine. What is demanded, z, depends on r where an extension pays for it.
fn more_calls(judgement: &Judgement, evidence: &Evidence, estimate: Estimate) -> Option<u64> {
    if judgement.design.run_variation.is_some() {
        return None;
    }
    let hypothesis =
        judgement.hypotheses.iter().find(|hypothesis| hypothesis.kind != HypothesisKind::NonZero)?;
    let tolerated = match (judgement.design.tolerance, hypothesis.high) {
        (Tolerance::Ratio(r), true) => r.ln_1p(),
        (Tolerance::Ratio(r), false) => (-r).ln_1p(),
        (Tolerance::Shift(s), true) => s,
        (Tolerance::Shift(s), false) => -s,
    };
    let error = 0.5 * (estimate.high? - estimate.low?) / normal_z(judgement.pass_level());
    let distance = (tolerated - estimate.middle).abs() / error;
    let (mut times, likely) = (2.0_f64, normal_z(1.0 - MORE_CALLS_PROBABILITY));
    for _ in 0..MORE_CALLS_ROUNDS {
        let z = judgement.demanded(hypothesis, times);
        let root = z.hypot(likely);
        let angle = (distance / root).min(1.0).asin() - likely.atan2(z);
        if angle.is_nan() || angle <= 0.0 {
            return None;
        }
        times = angle.sin().powi(-2).max(1.0);
    }
    let calls = (evidence.baseline.count + evidence.canary.count) as f64;
    let more = (times - 1.0) * calls;
    (more > 0.0 && more < MAX_MORE_CALLS).then(|| round_up(more))
}

/// To two digits: more would pretend to know.
fn round_up(n: f64) -> u64 {
    let unit = 10_f64.powf((n.log10().floor() - 1.0).max(0.0));
    ((n / unit).ceil() * unit) as u64
}

/// p95, p99.9.
fn quantile_name(q: f64) -> String {
    format!("p{}", (q * 1e6).round() / 1e4)
}

fn sentence(design: &Design, decision: &Decision, evidence: &Evidence) -> String {
    if let Some(obstacle) = &decision.obstacle {
        return hindered(obstacle);
    }
    if let (Some(floor), Some(Verdict::Pass)) = (&evidence.below_floor, decision.verdict) {
        return below(floor, evidence);
    }
    let Some(effect) = &evidence.effect else {
        return without_estimate(design, decision.verdict, evidence);
    };
    let subject = match design.question {
        Question::Location => "the canary".to_owned(),
        Question::Quantile(q) => format!("the canary's {}", quantile_name(q)),
        Question::Rate { .. } => "the canary's rate".to_owned(),
    };
    let tolerated = tolerated(design);
    let found = far(effect.estimate, effect.relative);
    let look = look(evidence);
    match decision.verdict {
        Some(Verdict::Fail) => {
            let test = evidence.tests.iter().find(|test| test.crossed);
            let p = test.map_or(String::new(), found_by);
            format!("Fail: {subject} is {found} the baseline, more than the tolerated {tolerated}{look}{p}.")
        }
        Some(Verdict::Pass) => {
            let most = excluded(effect);
            let early = early(evidence);
            format!("Pass: {subject} is {found} the baseline{most}; tolerated is {tolerated}{early}.")
        }
        Some(Verdict::Inconclusive) if effect.error.is_some_and(|error| error >= tolerance(design)) => {
            format!(
                "Inconclusive: it can't be told from these data. They are too coarse, by their clock or their buckets, to know a \
             difference better than to {}, and tolerated is {tolerated}; measure in finer steps, or tolerate more.",
                amount(effect.error.unwrap_or_default(), effect.relative)
            )
        }
        Some(Verdict::Inconclusive) => {
            let more = match evidence.more_calls {
                Some(n) => format!("; with a probability of 80 %, {n} more calls or fewer decide"),
                None => String::new(),
            };
            format!(
                "Inconclusive: {subject} is {found} the baseline{}, which neither keeps the tolerated {tolerated} nor \
                 exceeds it for certain{more}.",
                between(effect)
            )
        }
        _ => format!("It goes on: {subject} is {found} the baseline so far{}{look}.", between(effect)),
    }
}

/// A pass by the floor: how the versions compare may be all but unknown, and doesn't matter.
fn below(floor: &BelowFloor, evidence: &Evidence) -> String {
    format!(
        "Pass: the canary's rate is at most {}, below the floor of {} ({}){}.",
        percent(floor.at_most),
        percent(floor.floor),
        events(evidence),
        early(evidence)
    )
}

/// "3 of 5000 calls, the baseline 2 of 5000".
fn events(evidence: &Evidence) -> String {
    let of = |side: &SideSummary| format!("{} of {}", side.events.unwrap_or_default(), side.count);
    format!("{} calls, the baseline {}", of(&evidence.canary), of(&evidence.baseline))
}

/// Where it can't be said how large the difference is.
fn without_estimate(design: &Design, verdict: Option<Verdict>, evidence: &Evidence) -> String {
    let tolerated = tolerated(design);
    let counted = match design.question {
        Question::Rate { .. } => format!(" ({})", events(evidence)),
        _ => String::new(),
    };
    match verdict {
        None => format!("It goes on: there are not enough data for an estimate yet{counted}."),
        Some(Verdict::Pass) => format!(
            "Pass: the canary doesn't exceed the tolerated {tolerated}; how it compares in between can't be said{counted}{}.",
            early(evidence)
        ),
        Some(Verdict::Fail) => {
            let test = evidence.tests.iter().find(|test| test.crossed);
            let p = test.map_or(String::new(), found_by);
            format!(
                "Fail: the canary is worse than the baseline by more than the tolerated {tolerated}{counted}{p}."
            )
        }
        Some(verdict) => {
            format!(
                "{}: how the canary compares can't be said, so nothing is shown{counted}.",
                verdict.name()
            )
        }
    }
}

/// " (p = 2e-41, 0.05 was enough)".
fn found_by(test: &TestEvidence) -> String {
    let level = test.level.map_or(String::new(), |level| format!(", {} was enough", p_value(level)));
    let p = if test.p < LEAST_P { format!("p < {LEAST_P:.0e}") } else { format!("p = {}", p_value(test.p)) };
    format!(" ({p}{level})")
}

fn hindered(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Fault(fault) => format!("Error: {fault}."),
        Obstacle::NoData { baseline: true, canary: true } => {
            "No data: neither side measured anything.".to_owned()
        }
        Obstacle::NoData { baseline: true, .. } => "No data: the baseline measured nothing.".to_owned(),
        Obstacle::NoData { .. } => "No data: the canary measured nothing.".to_owned(),
        Obstacle::Split(Split { share, baseline, canary, .. }) => format!(
            "Inconclusive: the canary had {canary} of {} calls, which isn't the {} that was ordered, so the sides \
             differ in more than the version.",
            baseline + canary,
            percent(*share)
        ),
        Obstacle::FewEffectivePoints(points) => format!(
            "Inconclusive: the points of a series depend on each other and are worth {points:.0} independent ones on a \
             side; it takes 20."
        ),
        Obstacle::Sticky { calls, of } => format!(
            "Inconclusive: all calls of one user or child go to one version, so they are no independent calls, and {calls} \
             of {of} did not come in groups of users by which it could be told what they are worth."
        ),
        Obstacle::FewGroups(groups) => format!(
            "Inconclusive: all calls of one user or child go to one version, and {groups} of the groups of users that they \
             came in had calls: it takes {LEAST_GROUPS} to tell what such calls are worth."
        ),
        Obstacle::UnknownRunVariation => {
            "Inconclusive: how much one version varies from run to run isn't known; it \
             takes 5 earlier runs, or runVariation."
                .to_owned()
        }
    }
}

fn tolerance(design: &Design) -> f64 {
    match design.tolerance {
        Tolerance::Ratio(tolerance) | Tolerance::Shift(tolerance) => tolerance,
    }
}

fn amount(value: f64, relative: bool) -> String {
    if relative { percent(value) } else { number(value) }
}

fn tolerated(design: &Design) -> String {
    match design.tolerance {
        Tolerance::Ratio(r) => percent(r),
        Tolerance::Shift(s) => number(s),
    }
}

/// "20.3 % above".
fn far(value: f64, relative: bool) -> String {
    let amount = if relative { value - 1.0 } else { value };
    let way = if amount < 0.0 { "below" } else { "above" };
    let amount = amount.abs();
    match (relative, amount) {
        (_, a) if a < 1e-9 => "as high as".to_owned(),
        (true, a) if a >= 1.0 => format!("{} times", number(value)),
        (true, a) => format!("{} {way}", percent(a)),
        (false, a) => format!("{} {way}", number(a)),
    }
}

/// An end of an interval: "+4.2 %".
fn end(value: f64, relative: bool) -> String {
    if relative {
        signed(&percent((value - 1.0).abs()), value - 1.0)
    } else {
        signed(&number(value.abs()), value)
    }
}

fn signed(text: &str, value: f64) -> String {
    format!("{}{text}", if value < 0.0 { "−" } else { "+" })
}

fn between(effect: &Effect) -> String {
    let end = |value| end(value, effect.relative);
    match (effect.low, effect.high) {
        (Some(low), Some(high)) => format!(" (from {} to {})", end(low), end(high)),
        (Some(low), None) => format!(" (at least {})", end(low)),
        (None, Some(high)) => format!(" (at most {})", end(high)),
        (None, None) => String::new(),
    }
}

fn excluded(effect: &Effect) -> String {
    match (effect.low, effect.high) {
        (Some(low), Some(high)) => {
            format!(", from {} to {}", end(low, effect.relative), end(high, effect.relative))
        }
        (None, Some(high)) => format!(", at most {}", end(high, effect.relative)),
        _ => String::new(),
    }
}

/// "; passed early, at look 3 of 20".
fn early(evidence: &Evidence) -> String {
    if evidence.early { format!("; passed early{}", look(evidence)) } else { String::new() }
}

fn look(evidence: &Evidence) -> String {
    match (evidence.looks, evidence.planned_looks) {
        (0, _) | (_, Some(1)) => String::new(),
        (k, Some(of)) => format!(", at look {k} of {of}"),
        (k, None) => format!(", at look {k}"),
    }
}

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// Three digits.
fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    let digits = (2.0 - size.log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn p_value(p: f64) -> String {
    if p < 1e-4 { format!("{p:.0e}") } else { number(p) }
}
