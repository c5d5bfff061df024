//! Offers: the small strategies that children get, written anew so that a deployed agent can't get them wrong.
//!
//! Reference keys only, one function, one stage, durations in h, m, s and ms, thresholds as quoted strings, whole
//! percentages. A stage that tests waits for its signal and ends in a roll-back, however it ends: so whatever happens
//! afterwards, the base version serves. Conditions that an agent can't judge (percentiles) are left out; the manager
//! judges them. Every text of the developer is double-quoted with escapes, so that it stays one
//! string whatever it contains.

use std::fmt::Write as _;

use traffic::BUCKETS;

use super::{
    Condition, Function, Interim, Metric, Operator, Stage, StageKind, Statistic, Strategy, Subject, Version,
    render_full,
    scalar::{go_duration, sign},
};

/// The only stage of an undo offer.
pub const UNDO_STAGE: &str = "choirmaster undo";

/// The only stage of the offer that rolls out.
pub const ROLLOUT_STAGE: &str = "choirmaster rollout";

/// Where a one-stage offer ends if its stage succeeds.
#[derive(Debug, Clone, Copy)]
enum Then {
    Rollout,
    Rollback,
}

impl Then {
    fn word(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Rollback => "rollback",
        }
    }
}

/// One stage of the strategy: it waits for its signal, and leaves the base version. Without any call it can't end by
/// itself.
pub fn stage(strategy: &Strategy, stage: usize, offer_id: &str) -> String {
    let found = strategy.stages.get(stage).and_then(|s| Some((s, strategy.functions.get(s.subject)?)));
    let Some((stage, function)) = found else { return withdrawn(strategy, offer_id) };
    let offered = Stage { min_calls: stage.min_calls.max(1), ..stage.clone() };
    single(strategy, offer_id, (function, &function.new), (&offered, &judged(stage)), Then::Rollback)
}

/// The same, with how an agent that can reports it while it goes on.
pub fn reported_stage(strategy: &Strategy, stage: usize, offer_id: &str) -> String {
    let text = self::stage(strategy, stage, offer_id);
    let Some(interim) = strategy.interim(stage) else { return text };
    let mut text = text.strip_suffix(TAIL).unwrap_or(&text).to_owned();
    push_interim(&mut text, interim);
    text + TAIL
}

/// How the stage before is reported while it goes on.
pub(super) fn push_interim(text: &mut String, Interim { every_ms, cut_ms }: Interim) {
    let (every, cut) = (millis(every_ms), millis(cut_ms));
    let _ = write!(text, "    interim:\n      every: {every}\n      cut: {cut}\n");
}

pub(super) fn millis(ms: u64) -> String {
    go_duration(std::time::Duration::from_millis(ms))
}

/// An unconditional stage that ends in the roll-out of the function. All calls already go to the new version,
/// which is what follows anyway.
pub fn rollout(strategy: &Strategy, function: usize, offer_id: &str) -> String {
    let Some(function) = strategy.functions.get(function) else { return withdrawn(strategy, offer_id) };
    let stage = unconditional(ROLLOUT_STAGE, 100);
    single(strategy, offer_id, (function, &function.new), (&stage, &[]), Then::Rollout)
}

/// An unconditional stage that leaves the base version, or the stable variation, whatever ran before.
pub fn undo(strategy: &Strategy, subject: usize, offer_id: &str) -> String {
    let stage = unconditional(UNDO_STAGE, 0);
    match strategy.subject(subject) {
        Some(Subject::Function(function)) => {
            single(strategy, offer_id, (function, &function.base), (&stage, &[]), Then::Rollback)
        }
        Some(Subject::Service(service)) => {
            let mut shares = vec![0; service.variations.len()];
            shares.iter_mut().take(1).for_each(|stable| *stable = BUCKETS);
            let alone = Strategy {
                functions: Vec::new(),
                services: vec![service.clone()],
                stages: vec![Stage { shares, ..stage }],
                rollout: None,
                from_parent: None,
                ..strategy.clone()
            };
            render_full::in_place(&alone, offer_id, false)
        }
        None => withdrawn(strategy, offer_id),
    }
}

/// An offer of nothing, for one that was shown and then withdrawn.
pub fn withdrawn(strategy: &Strategy, offer_id: &str) -> String {
    head(strategy, offer_id) + "functions: []\nstages: []\n" + TAIL
}

pub(super) const TAIL: &str = "rollback:\n  action:\n    function: base_version\n";

fn unconditional(name: &str, new_traffic: u8) -> Stage {
    Stage {
        name: name.to_owned(),
        kind: StageKind::WaitForSignal,
        subject: 0,
        new_traffic,
        shares: Vec::new(),
        with_next: false,
        healthy_targets: None,
        conditions: Vec::new(),
        min_duration: std::time::Duration::ZERO,
        min_calls: 0,
        on_success: super::Action::Rollback,
        on_failure: super::Action::Rollback,
        analysis: None,
    }
}

fn single(
    strategy: &Strategy,
    offer_id: &str,
    (function, new): (&Function, &Version),
    (stage, conditions): (&Stage, &[&Condition]),
    then: Then,
) -> String {
    let mut text = head(strategy, offer_id);
    push_function(&mut text, function, new, true);
    text.push_str("stages:\n");
    push_stage(&mut text, stage, conditions, function, then.word());
    text + TAIL
}

pub(super) fn head(strategy: &Strategy, offer_id: &str) -> String {
    let (id, name, kind) = (quoted(offer_id), quoted(&strategy.name), quoted(&strategy.kind));
    format!("id: {id}\nname: {name}\ntype: {kind}\n")
}

pub(super) fn push_function(text: &mut String, function: &Function, new: &Version, is_first: bool) {
    if is_first {
        text.push_str("functions:\n");
    }
    let _ = writeln!(text, "  - name: {}", quoted(&function.name));
    for (key, version) in [("base_version", &function.base), ("new_version", new)] {
        let (path, env) = (quoted(&version.path), quoted(&version.env));
        let _ = write!(text, "    {key}:\n      path: {path}\n      env: {env}\n");
    }
}

fn push_stage(
    text: &mut String,
    stage: &Stage,
    conditions: &[&Condition],
    function: &Function,
    on_success: &str,
) {
    let (name, func_name) = (quoted(&stage.name), quoted(&function.name));
    let _ = write!(
        text,
        "  - name: {name}\n    type: WaitForSignal\n    func_name: {func_name}\n    variants:\n"
    );
    let new = stage.new_traffic.min(100);
    for (name, share) in [("base_version", 100 - new), ("new_version", new)] {
        let _ = write!(text, "      - name: {name}\n        trafficPercentage: {share}\n");
    }
    push_conditions(text, conditions);
    let (duration, calls) = (go_duration(stage.min_duration), stage.min_calls);
    let _ = write!(
        text,
        "    end_conditions:\n      - name: minDuration\n        threshold: {duration}\n      - name: minCalls\n        \
         threshold: \"{calls}\"\n    end_action:\n      onSuccess: {on_success}\n      onFailure: rollback\n"
    );
}

/// What an agent fails without one successful call of the new version: its times are -1 then.
const SOME_CALL: Condition = Condition {
    metric: Metric::ResponseTime(Statistic::Minimum),
    operator: Operator::GreaterOrEqual,
    threshold: 0.0,
};

/// What the agent judges itself.
fn judged(stage: &Stage) -> Vec<&Condition> {
    let mut conditions: Vec<&Condition> =
        stage.conditions.iter().filter(|c| !c.metric.is_quantile()).collect();
    if stage.new_traffic > 0 && !conditions.contains(&&SOME_CALL) {
        conditions.push(&SOME_CALL);
    }
    conditions
}

fn push_conditions(text: &mut String, conditions: &[&Condition]) {
    if conditions.is_empty() {
        text.push_str("    metrics_conditions: []\n");
        return;
    }
    text.push_str("    metrics_conditions:\n");
    for Condition { metric, operator, threshold } in conditions {
        let (name, statistic) = match metric {
            Metric::ErrorRate => ("errorRate", None),
            Metric::ResponseTime(Statistic::Median) => ("responseTime", Some("Median")),
            Metric::ResponseTime(Statistic::Maximum) => ("responseTime", Some("Maximum")),
            Metric::ResponseTime(_) => ("responseTime", Some("Minimum")),
        };
        let sign = sign(*operator);
        let _ = write!(text, "      - name: {name}\n        threshold: \"{sign}{threshold}\"\n");
        if let Some(statistic) = statistic {
            let _ = writeln!(text, "        compareWith: {statistic}");
        }
    }
}

/// A YAML double-quoted string on one line. What a reader could refuse, fold or hide is escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            c if needs_escape(c) => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Control characters, the line breaks of Unicode, invisible marks that turn text around, and non-characters.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{85}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{200b}'..='\u{200f}')
        || u32::from(c) & 0xfffe == 0xfffe
        || matches!(c, '\u{fdd0}'..='\u{fdef}')
}
