//! A decision in one sentence, for people.

use super::{
    clusters::LEAST_GROUPS,
    data::LEAST_DIFFERENT,
    decision::{Decision, Obstacle},
    design::{Design, End, Question, Tolerance},
    evidence::{BelowFloor, Effect, Evidence, SideSummary, TestEvidence, Verdict},
    silence::Silence,
    split::Split,
};

/// Smaller probabilities are not told apart.
const LEAST_P: f64 = 1e-300;

/// What a verdict on few children is about.
pub(super) fn few_children(evidence: &Evidence) -> Option<String> {
    let between = evidence.children.filter(|between| between.deviation.is_none())?;
    Some(match between.children {
        1 => " This holds for the one child that measured enough of both versions.".to_owned(),
        few => format!(
            " This holds for the {few} children that measured enough of both versions: they are too few to tell how \
             others differ."
        ),
    })
}

/// p95, p99.9.
pub(super) fn quantile_name(q: f64) -> String {
    format!("p{}", (q * 1e6).round() / 1e4)
}

pub(super) fn sentence(design: &Design, decision: &Decision, evidence: &Evidence) -> String {
    if let Some(obstacle) = &decision.obstacle {
        return hindered(design, obstacle);
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
        Some(Verdict::Inconclusive) if effect.error.is_some_and(|error| error >= tolerance_size(design)) => {
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
        Some(Verdict::NoData | Verdict::Error) | None => {
            format!("It goes on: {subject} is {found} the baseline so far{}{look}.", between(effect))
        }
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
        Question::Location | Question::Quantile(_) => String::new(),
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

fn hindered(design: &Design, obstacle: &Obstacle) -> String {
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
        Obstacle::Dispersion(between) => format!(
            "Inconclusive: all calls together were shared out as ordered, but over {} children the splits of single ones differ \
             from that by more than chance explains, so the sides differ in more than the version.",
            between.children
        ),
        Obstacle::FewEffectivePoints(points) => format!(
            "Inconclusive: the points of a series depend on each other and are worth {points:.0} independent ones on a \
             side; it takes 20."
        ),
        Obstacle::FarWorse { points, p } => format!(
            "Fail: the canary is worse by far more than the tolerated {}: though the points of both series depend on each other \
             and are worth {points:.0} independent ones on a side, chance alone would show this with p = {} by Student's t.",
            tolerated(design),
            p_value(*p)
        ),
        Obstacle::Sticky { calls, of } => format!(
            "Inconclusive: all calls of one user or child go to one version, so they are no independent calls, and {calls} \
             of {of} did not come in groups of users by which it could be told what they are worth."
        ),
        Obstacle::FewGroups(groups) => format!(
            "Inconclusive: all calls of one user or child go to one version, and {groups} of the groups of users that they \
             came in had calls of the version with fewer users: it takes {LEAST_GROUPS} of each to tell what such calls are worth."
        ),
        Obstacle::Silent(Silence { is_canary, spoke, of, last, is_over }) => {
            let interval_ms = match design.end {
                End::After { interval_ms, .. } | End::Open { interval_ms } => interval_ms,
                End::Once => 0,
            };
            let side = if *is_canary { "the canary" } else { "the baseline" };
            let since = number(((last + 1) * interval_ms) as f64 / 1e3);
            let since = if *is_over { format!(" and none after {since} s") } else { String::new() };
            format!("No data: {side} has values in {spoke} of {of} intervals{since}; by these it would pass.")
        }
        Obstacle::FewDifferent => format!(
            "Inconclusive: there are fewer than {LEAST_DIFFERENT} different values on both sides together, which a coarse clock \
             would show of different versions too; measure in finer steps, count one of the values as a rate, or ask for a \
             THRESHOLD."
        ),
        Obstacle::UnknownRunVariation => {
            "Inconclusive: how much one version varies from run to run isn't known; it \
             takes 5 earlier runs, or runVariation."
                .to_owned()
        }
    }
}

pub(super) fn tolerance_size(design: &Design) -> f64 {
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
        (Some(_) | None, None) => String::new(),
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
