//! A decision with everything it rests on, and in one sentence.

use std::{borrow::Cow, cell::RefCell};

use super::{
    data::{Counts, Sample, Stratum},
    decision::{Decision, Obstacle},
    design::{Design, End, Tolerance},
    dist::normal_z,
    estimate::{Compared, Estimate, Search, superiority},
    evidence::{BelowFloor, Effect, Evidence, SideSummary, TestEvidence, Verdict},
    exact::Distributions,
    hypothesis::{Hypothesis, HypothesisKind, Inflation},
    interval_merging::Pooled,
    judge::Judgement,
    root::falling,
    sentence::{Sentence, few_children, quantile_name, tolerance_size},
    spread::quantile,
};

/// The probability with which the calls that are quoted decide.
const MORE_CALLS_PROBABILITY: f64 = 0.8;

/// What is demanded hardly depends on how many calls there will be: so often it is worked out anew.
const MORE_CALLS_ROUNDS: usize = 8;

/// More calls than this are as good as never.
const MAX_MORE_CALLS: f64 = 1e12;

/// Everything that a decision rests on.
pub fn evidence(judgement: &Judgement, strata: &[Stratum], decision: &Decision) -> Evidence {
    let strata = &strata[..decision.visible.min(strata.len())];
    // Off the grid the latest data aren't part of the state, and not of what is shown either.
    let mut judged = judgement.clone();
    let effect = match decision.obstacle {
        Some(Obstacle::Fault(_) | Obstacle::NoData { .. }) => None,
        Some(
            Obstacle::Split(_)
            | Obstacle::Dispersion(_)
            | Obstacle::FewEffectivePoints(_)
            | Obstacle::FarWorse { .. }
            | Obstacle::UnknownRunVariation
            | Obstacle::FewDifferent
            | Obstacle::OnlyZeros(_)
            | Obstacle::Silent(_)
            | Obstacle::Sticky { .. }
            | Obstacle::FewGroups(_),
        )
        | None => effect(&judged, strata, decision),
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
        split: if faulty { None } else { judgement.split_evidence() },
    };
    if let Some((_, estimate)) = effect
        && decision.verdict == Some(Verdict::Inconclusive)
        && decision.obstacle.is_none()
        && effect.is_some_and(|(effect, _)| {
            effect.error.is_none_or(|error| error < tolerance_size(&judgement.design))
        })
    {
        evidence.more_calls = more_calls(judgement, &evidence, estimate);
    }
    let is_times = strata.iter().any(|stratum| matches!(stratum.canary, Sample::Measured(_)));
    let (design, hypotheses) = (&judgement.design, &judgement.hypotheses);
    let sentence = Sentence { design, decision, evidence: &evidence, hypotheses, is_times };
    evidence.sentence = sentence.text();
    if let (Some(few), None) = (few_children(&evidence), &decision.obstacle) {
        evidence.sentence.push_str(&few);
    }
    evidence
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
    let floor = judgement.design.floor()?;
    let hypothesis = judgement.hypotheses.iter().find(|hypothesis| hypothesis.high)?;
    let canary = hypothesis.against_floor();
    let half = if judgement.design.passes_early() {
        hypothesis.passing.level_of_floor()?
    } else {
        0.5 * judgement.design.planned_alpha()
    };
    let is_below = canary.information(floor) > 0.0 && canary.lower(floor) <= half;
    let bound = |rate: f64| canary.lower(rate.clamp(0.0, 1.0)) - half;
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
    let waits = evidence.tests.iter().any(TestEvidence::waits_for_floor);
    let distance = if let Some(floor) = judgement.design.floor().filter(|_| waits) {
        hypothesis.against_floor().distance(floor)
    } else {
        let error = 0.5 * (estimate.high? - estimate.low?) / normal_z(judgement.pass_level());
        (tolerated - estimate.middle).abs() / error
    };
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
