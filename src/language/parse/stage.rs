//! One stage: what it tests, by which conditions, when it may end, and what follows it.

use std::time::Duration;

use traffic::{BUCKETS, MAX_VARIATIONS};

use super::draft::{DraftShares, DraftStage, DraftSubject};
use crate::{
    analysis::{self, AnalysisPlace},
    condition::{Condition, Metric, Operator, Statistic},
    diagnostic::{nearest, quoted},
    fields::{FieldEntry, Fields, Located},
    findings::Findings,
    from_parent,
    interim::Interim,
    limits::MAX_CONDITIONS,
    node::{Node, NodeKind},
    reading::{read_name, read_scalar, read_truth, read_word, title_of},
    scalar::{self, Threshold, ThresholdUnit},
    strategy::StageKind,
};

/// The last one only in what a manager hands to an agent.
const KEYS: [&str; 13] = [
    "name",
    "type",
    "func_name",
    "variants",
    "service",
    "shares",
    "with_next",
    "healthy_targets",
    "metrics_conditions",
    "end_conditions",
    "end_action",
    "analysis",
    "interim",
];

pub(super) fn read_stage(node: &Node, index: usize, findings: &mut Findings<'_>) -> Option<DraftStage> {
    let keys = if findings.is_offer() { &KEYS[..] } else { &KEYS[..KEYS.len() - 1] };
    let fields = Fields::open(node, title_of("stage", node, index), keys, findings)?;
    let kinds = [("A/B", Type::AB), ("WaitForSignal", Type::WaitForSignal), ("Traffic", Type::Traffic)];
    let kind = fields.required("type", "WaitForSignal", findings);
    let kind = kind.and_then(|e| read_word(e, "stage type", &kinds, findings));
    let (min_duration, min_calls) = minima(&fields, findings);
    let (on_success, on_failure) = actions(&fields, findings);
    let about = about(&fields, kind, findings);
    let About { subject, new_traffic, shares, with_next, healthy_targets } = about;
    let analysis = fields.filled("analysis", "and below it duration:, interval: and metrics:", findings);
    let interim = fields.optional("interim").filter(|_| findings.is_offer());
    Some(DraftStage {
        at: fields.at(),
        name: fields.required("name", "Canary 5 Percent", findings).and_then(|e| read_name(e, findings)),
        kind: kind.map(|kind| match kind {
            Type::AB | Type::Traffic => StageKind::AB,
            Type::WaitForSignal => StageKind::WaitForSignal,
        }),
        subject,
        new_traffic,
        shares,
        with_next,
        healthy_targets,
        conditions: conditions(&fields, findings),
        min_duration,
        min_calls,
        on_success,
        on_failure,
        analysis: analysis.and_then(|e| analysis::read(e, AnalysisPlace::Stage { new_traffic }, findings)),
        interim: interim.and_then(|e| read_interim(e, findings)),
    })
}

/// A word under `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    AB,
    WaitForSignal,
    /// Of a service alone.
    Traffic,
}

/// What a stage is about, and how calls are shared.
#[derive(Default)]
struct About {
    subject: Option<DraftSubject>,
    new_traffic: Option<u8>,
    shares: Option<DraftShares>,
    with_next: bool,
    healthy_targets: Option<u16>,
}

fn about(fields: &Fields<'_>, kind: Option<Type>, findings: &mut Findings<'_>) -> About {
    let is_of_service = kind == Some(Type::Traffic)
        || ["service", "shares", "with_next", "healthy_targets"]
            .iter()
            .any(|key| fields.place(key).is_some());
    let mut refuse = |keys: &[&str], of: &str, fix: &str| {
        for (key, at) in keys.iter().filter_map(|key| Some((key, fields.place(key)?))) {
            let message = format!("{} is a stage of a {of} and has no {key}", fields.what());
            findings.error(at, "contradiction", message).fix(fix);
        }
    };
    if !is_of_service {
        let name = fields.required("func_name", "sieve", findings).and_then(|e| read_name(e, findings));
        let (subject, new_traffic) = (name.map(DraftSubject::Function), variants(fields, findings));
        return About { subject, new_traffic, ..About::default() };
    }
    refuse(
        &["func_name", "variants"],
        "service",
        "name the service under service: and its shares under shares:",
    );
    if kind == Some(Type::AB) {
        findings
            .error(
                fields.at(),
                "contradiction",
                format!("{} is a stage of a service and not of type A/B", fields.what()),
            )
            .fix("write type: Traffic, or WaitForSignal where it is to wait for the manager");
    }
    let subject = match fields.filled("service", "checkout", findings) {
        Some(entry) => read_name(entry, findings).map(DraftSubject::Service),
        None if fields.place("service").is_some() => None,
        None => Some(DraftSubject::OnlyService),
    };
    let healthy_targets = fields.filled("healthy_targets", "95", findings);
    let healthy_targets =
        healthy_targets.and_then(|e| read_scalar(e, "bad-percentage", scalar::hundredths, findings));
    let with_next = fields.filled("with_next", "true", findings);
    let with_next = with_next.and_then(|e| read_truth(e, findings)).unwrap_or_default();
    let shares = shares(fields, findings);
    About { subject, new_traffic: None, shares, with_next, healthy_targets }
}

/// `{A: 90, B: 10}`: which variation gets how much, in percent; who isn't named gets nothing.
fn shares(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<DraftShares> {
    let entry = fields.required("shares", "{A: 90, B: 10}", findings)?;
    let NodeKind::Mapping(pairs) = &entry.node.kind else {
        findings.error(entry.at, "wrong-type", "shares is not a mapping").fix("write shares: {A: 90, B: 10}");
        return None;
    };
    if pairs.len() > MAX_VARIATIONS {
        let message =
            format!("shares names {} variations, at most {MAX_VARIATIONS} are possible", pairs.len());
        findings.error(entry.at, "too-many", message).fix("name those of the service");
        return None;
    }
    let mut of: Vec<(Located<String>, u16)> = Vec::new();
    for (key, node) in pairs {
        let name = read_name(FieldEntry { key: "a variation", node: key, at: key.at }, findings);
        let share = FieldEntry { key: "a share", node, at: node.at };
        let share = read_scalar(share, "bad-percentage", scalar::hundredths, findings);
        let (name, share) = (name?, share?);
        if of.iter().any(|(before, _)| before.value == name.value) {
            let message = format!("shares of {} names {} twice", fields.what(), quoted(&name.value));
            findings.error(key.at, "duplicate-key", message).fix("keep one of the two");
            return None;
        }
        of.push((name, share));
    }
    let sum: u32 = of.iter().map(|(_, share)| u32::from(*share)).sum();
    if sum != u32::from(BUCKETS) {
        let message =
            format!("the shares of {} add up to {} %, not to 100 %", fields.what(), f64::from(sum) / 100.0);
        findings.error(entry.at, "traffic-sum", message).fix("change one of them");
        return None;
    }
    Some(DraftShares { of })
}

fn read_interim(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Interim> {
    let fields = Fields::open(entry.node, "interim".to_owned(), &["every", "cut"], findings)?;
    from_parent::interim_of(&fields, findings)
}

/// The new version's share. Both variants must be there: a forgotten one is rather a fault than a wish.
fn variants(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<u8> {
    let entry = fields.required("variants", "and below it base_version and new_version", findings)?;
    let names = [("base_version", 0_usize), ("new_version", 1)];
    let mut shares: [Option<Option<u8>>; 2] = [None, None];
    let mut unnamed = false;
    for (index, node) in entry.items(MAX_CONDITIONS, findings).iter().enumerate() {
        let what = format!("{} of {}", title_of("variant", node, index), fields.what());
        let variant = Fields::open(node, what, &["name", "trafficPercentage"], findings);
        let Some(variant) = variant else {
            unnamed = true;
            continue;
        };
        let which = variant.required("name", "new_version", findings);
        let which = which.and_then(|e| read_word(e, "variant", &names, findings));
        let share = variant.required("trafficPercentage", "5", findings);
        let share = share.and_then(|e| read_scalar(e, "bad-percentage", scalar::percentage, findings));
        match which {
            None => unnamed = true,
            Some(which) if shares[which].is_some() => {
                let message = format!("{} names {} twice", fields.what(), names[which].0);
                let fix = format!("keep one of the two, the other variant is {}", names[1 - which].0);
                findings.error(variant.at(), "duplicate-name", message).fix(fix);
                unnamed = true;
            }
            Some(which) => shares[which] = Some(share),
        }
    }
    match shares {
        [Some(Some(base)), Some(Some(new))] if u16::from(base) + u16::from(new) == 100 => Some(new),
        [Some(Some(base)), Some(Some(new))] => {
            let sum = u16::from(base) + u16::from(new);
            let message = format!("the traffic of {} adds up to {sum} %, not to 100 %", fields.what());
            findings
                .error(entry.at, "traffic-sum", message)
                .fix(format!("give base_version {} and new_version {new}", 100 - new));
            None
        }
        [base, new] => {
            for (share, other, (name, _)) in [(base, new, names[0]), (new, base, names[1])] {
                if share.is_none() && !unnamed {
                    let message = format!("variants of {} lack {name}", fields.what());
                    let rest = other.flatten().map_or(50, |other| 100 - other);
                    findings
                        .error(entry.at, "missing-variant", message)
                        .fix(format!("add {name} with trafficPercentage: {rest}"));
                }
            }
            None
        }
    }
}

fn conditions(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Vec<Condition> {
    let Some(entry) = fields.optional("metrics_conditions") else { return Vec::new() };
    let mut conditions: Vec<Condition> = Vec::new();
    for (index, node) in entry.items(MAX_CONDITIONS, findings).iter().enumerate() {
        let Some(Located { value, at }) = condition(fields.what(), node, index, findings) else { continue };
        if !findings.is_stored()
            && let Some((message, fix)) = odd(&value).or_else(|| excluded(&value, &conditions))
        {
            findings.warning(at, "odd-condition", message).fix(fix);
        }
        conditions.push(value);
    }
    conditions
}

/// What is odd about a condition whatever else is asked for, and what to write.
fn odd(condition: &Condition) -> Option<(String, String)> {
    let Condition { metric, operator, threshold } = *condition;
    let never = |why: &str, fix: &str| Some((format!("{condition} can't hold: {why}"), fix.to_owned()));
    match (metric, operator) {
        (Metric::ErrorRate, Operator::Less) if threshold <= 0.0 => {
            never("no share is below 0", "write \"<=0\" where no call may fail")
        }
        (Metric::ResponseTime(_), Operator::Less) if threshold <= 0.0 => {
            never("no time is below 0", "write \"<=250\" for 250 ms")
        }
        (Metric::ErrorRate, Operator::Greater) if threshold >= 1.0 => {
            never("no more than all calls fail", "write \"<0.02\" where less than 2 % may fail")
        }
        (Metric::ErrorRate, Operator::Greater | Operator::GreaterOrEqual | Operator::Equal)
            if threshold > 0.0 || operator == Operator::Greater =>
        {
            let limit = if threshold > 0.0 { threshold } else { 0.02 };
            let fix = format!("write \"<{limit}\" where less than {} may fail", metric.shown(limit));
            Some((format!("{condition} holds only if calls of the new version fail"), fix))
        }
        _ => None,
    }
}

/// That a condition and one before it can't both hold, and what to do.
fn excluded(condition: &Condition, before: &[Condition]) -> Option<(String, String)> {
    let is_above = |low: &Condition, high: &Condition| {
        let is_lower = matches!(low.operator, Operator::Greater | Operator::GreaterOrEqual | Operator::Equal);
        let is_upper = matches!(high.operator, Operator::Less | Operator::LessOrEqual | Operator::Equal);
        let is_open = low.operator == Operator::Greater || high.operator == Operator::Less;
        let (low, high) = (low.threshold, high.threshold);
        is_lower && is_upper && (low > high || (is_open && low >= high))
    };
    let other = before.iter().find(|other| {
        let is_same = other.metric == condition.metric && odd(other).is_none();
        is_same && (is_above(condition, other) || is_above(other, condition))
    })?;
    Some((format!("{condition} and {other} can't both hold"), "change one of the two".to_owned()))
}

#[derive(Clone, Copy)]
enum MetricName {
    ErrorRate,
    ResponseTime,
}

/// A condition, and where its threshold stands.
fn condition(
    stage: &str,
    node: &Node,
    index: usize,
    findings: &mut Findings<'_>,
) -> Option<Located<Condition>> {
    let what = format!("{} of {stage}", title_of("condition", node, index));
    let fields = Fields::open(node, what, &["name", "threshold", "compareWith"], findings)?;
    let names = [("errorRate", MetricName::ErrorRate), ("responseTime", MetricName::ResponseTime)];
    let metric = fields.required("name", "errorRate", findings);
    let metric = metric.and_then(|e| read_word(e, "metric", &names, findings));
    let entry = fields.required("threshold", "\"<0.02\"", findings);
    let limit = entry.and_then(|e| read_scalar(e, "bad-threshold", scalar::threshold, findings));
    let at = entry.map_or(fields.at(), |e| e.at);
    let compare = fields.optional("compareWith");
    let statistic = match compare {
        None => Some(Statistic::Median),
        Some(entry) => statistic(entry, findings),
    };
    let metric = match metric? {
        MetricName::ErrorRate => {
            if let Some(entry) = compare {
                findings
                    .warning(entry.at, "no-effect", "compareWith has no meaning for errorRate")
                    .fix("leave it out");
            }
            Metric::ErrorRate
        }
        MetricName::ResponseTime => Metric::ResponseTime(statistic?),
    };
    let limit = limit?;
    let Threshold { operator, value: threshold, .. } = limit;
    if let Some((message, fix)) = out_of_range(metric, limit, findings.is_stored()) {
        findings.error(at, "bad-threshold", message).fix(fix);
        return None;
    }
    Some(Located { value: Condition { metric, operator, threshold }, at })
}

/// Why a threshold is none of the metric, and what to write.
fn out_of_range(metric: Metric, limit: Threshold, is_stored: bool) -> Option<(String, String)> {
    let Threshold { operator, value, unit } = limit;
    let sign = scalar::sign(operator);
    match (metric, unit) {
        (Metric::ErrorRate, Some(ThresholdUnit::Time)) => Some((
            "errorRate is a share of calls, and this is a time".to_owned(),
            "write \"<2%\", or name: responseTime for a time".to_owned(),
        )),
        (Metric::ResponseTime(_), Some(ThresholdUnit::Percent)) => Some((
            "responseTime is a time, and this is a percentage".to_owned(),
            "write \"<=250ms\", or name: errorRate for a share of calls".to_owned(),
        )),
        (Metric::ErrorRate, None) if value > 1.0 => Some((
            format!("errorRate is a share from 0 to 1, not {value}"),
            format!("write \"{sign}{}\" for {value} %", value / 100.0),
        )),
        (Metric::ErrorRate, _) if value > 1.0 => {
            Some(("errorRate is at most 100 %".to_owned(), "write a smaller one, as in \"<2%\"".to_owned()))
        }
        (Metric::ResponseTime(_), _) if value > scalar::MAX_RESPONSE_TIME_MS && !is_stored => Some((
            "responseTime is in milliseconds, this is over eleven days".to_owned(),
            "write \"<=250\" for 250 ms".to_owned(),
        )),
        _ => None,
    }
}

fn statistic(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Statistic> {
    let text = entry.text(findings)?;
    let statistic = scalar::statistic(text.value);
    if statistic.is_none() {
        let found =
            findings.error(text.at, "unknown-value", format!("there is no statistic {}", quoted(text.value)));
        let percentile = text.value.starts_with('P');
        match nearest(text.value, scalar::STATISTICS) {
            Some(near) if !percentile => found.fix(format!("did you mean {near}?")),
            _ => found.fix("it is Median, Minimum, Maximum or a percentile such as P95"),
        }
    }
    statistic
}

/// `minDuration` and `minCalls`; each is 0 where it is not given, as deployed agents have it.
fn minima(fields: &Fields<'_>, findings: &mut Findings<'_>) -> (Duration, u64) {
    let mut duration = None;
    let mut calls = None;
    let Some(entry) = fields.optional("end_conditions") else { return (Duration::ZERO, 0) };
    for (index, node) in entry.items(MAX_CONDITIONS, findings).iter().enumerate() {
        let what = format!("{} of {}", title_of("end condition", node, index), fields.what());
        let Some(item) = Fields::open(node, what, &["name", "threshold"], findings) else { continue };
        let name = item.required("name", "minDuration", findings);
        let is_duration = name.and_then(|e| {
            read_word(e, "end condition", &[("minDuration", true), ("minCalls", false)], findings)
        });
        let Some(limit) = item.required("threshold", "10s", findings) else { continue };
        let twice = match is_duration {
            None => continue,
            Some(true) => {
                duration.replace(read_scalar(limit, "bad-duration", scalar::duration, findings)).is_some()
            }
            Some(false) => calls.replace(read_scalar(limit, "bad-count", scalar::calls, findings)).is_some(),
        };
        if twice {
            let message = format!("{} is given twice", item.what());
            findings.error(item.at(), "duplicate-name", message).fix("keep one of the two");
        }
    }
    (duration.flatten().unwrap_or_default(), calls.flatten().unwrap_or_default())
}

fn actions(
    fields: &Fields<'_>,
    findings: &mut Findings<'_>,
) -> (Option<Located<String>>, Option<Located<String>>) {
    let none = (None, None);
    let example = "and below it onSuccess: rollout and onFailure: rollback";
    let Some(entry) = fields.required("end_action", example, findings) else { return none };
    let what = format!("end_action of {}", fields.what());
    let Some(action) = Fields::open(entry.node, what, &["onSuccess", "onFailure"], findings) else {
        return none;
    };
    let success = action.required("onSuccess", "rollout", findings).and_then(|e| read_name(e, findings));
    (success, action.optional("onFailure").and_then(|e| read_name(e, findings)))
}
