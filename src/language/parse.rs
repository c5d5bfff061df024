//! From the tree of [`super::raw`] to a [`StrategyDraft`]: every value read, names not yet looked up.
//!
//! A value that can't be read is reported and left out of the draft, and reading goes on.

use std::time::Duration;

use model::ReleaseId;

use super::{
    Condition, FromParent, MAX_FUNCTIONS, MAX_STAGES, Metric, OnConflict, Operator, ReleaseDeadlines,
    StageKind, Statistic, TextPlaces, Version, VersionPlace,
    analysis::{self, AnalysisPlace},
    diagnostic::{Findings, nearest, quoted},
    fields::{FieldEntry, Fields, Located},
    from_parent,
    raw::{At, Node, NodeKind},
    rollout, runtime,
    scalar::{self, ScalarFault},
    sticky::{self, Sticky},
    target::{self, Target},
};

/// Longest name (of a release, function, stage, runtime), in bytes.
pub const MAX_NAME_BYTES: usize = 200;

/// Most conditions of one stage.
pub const MAX_CONDITIONS: usize = 32;

const KEYS: [&str; 15] = [
    "id",
    "name",
    "type",
    "functions",
    "stages",
    "rollback",
    "on_conflict",
    "offer_deadline",
    "setup_grace",
    "stage_deadline",
    "target",
    "rollout",
    "forward_up",
    analysis::templates::NAMESPACE,
    analysis::templates::KEY,
];

/// The keys of a text that comes from the parent: one more.
const KEYS_FROM_PARENT: [&str; KEYS.len() + 1] = {
    let mut keys = ["from_above"; KEYS.len() + 1];
    let mut at = 0;
    while at < KEYS.len() {
        keys[at] = KEYS[at];
        at += 1;
    }
    keys
};

/// Who wrote a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    Developer,
    /// The parent.
    Parent,
}

/// A strategy as far as it could be read.
pub(super) struct StrategyDraft {
    pub id: Option<ReleaseId>,
    pub name: Option<String>,
    pub kind: String,
    pub functions: Vec<DraftFunction>,
    pub stages: Vec<DraftStage>,
    pub on_conflict: OnConflict,
    pub deadlines: ReleaseDeadlines,
    pub stage_deadline_at: At,
    pub target: Option<Target>,
    pub rollout: Option<rollout::RolloutDraft>,
    pub forward_up: bool,
    pub from_parent: Option<FromParent>,
    pub places: TextPlaces,
}

pub(super) struct DraftFunction {
    pub at: At,
    pub name: Option<Located<String>>,
    pub base: Option<Version>,
    pub new: Option<Version>,
    pub sticky: Option<Sticky>,
    pub places: [VersionPlace; 2],
}

pub(super) struct DraftStage {
    pub at: At,
    pub name: Option<Located<String>>,
    pub kind: Option<StageKind>,
    pub function: Option<Located<String>>,
    pub new_traffic: Option<u8>,
    pub conditions: Vec<Condition>,
    pub min_duration: Duration,
    pub min_calls: u64,
    pub on_success: Option<Located<String>>,
    /// Absent: `rollback`, the one that is always safe.
    pub on_failure: Option<Located<String>>,
    pub analysis: Option<analysis::AnalysisDraft>,
}

pub(super) fn draft(root: &Node, author: Author, findings: &mut Findings<'_>) -> Option<StrategyDraft> {
    if matches!(root.kind, NodeKind::Null) {
        findings.error(At::START, "empty", "there is no strategy here").fix("start with id: and name:");
        return None;
    }
    let keys = match author {
        Author::Developer => &KEYS[..],
        Author::Parent => &KEYS_FROM_PARENT[..],
    };
    let fields = Fields::open(root, "the strategy".to_owned(), keys, findings)?;
    let deadline = |key: &str, findings: &mut Findings<'_>| {
        fields.optional(key).and_then(|e| read(e, "bad-duration", scalar::duration, findings))
    };
    let id = fields.required("id", "my-release-1", findings).and_then(|e| release_id(e, findings));
    let name = fields.required("name", "my release", findings).and_then(|e| name(e, findings));
    let kind = fields.optional("type").and_then(|e| name_text(e, findings)).unwrap_or_default();
    let functions = list(&fields, "functions", MAX_FUNCTIONS, function, findings);
    let stages = list(&fields, "stages", MAX_STAGES, stage, findings);
    rollback(&fields, findings);
    let target = fields.filled("target", "{labels: {tier: edge}}", findings);
    let target = target.and_then(|e| target::read(e, findings));
    let rollout = fields.filled("rollout", "{order: parallel}", findings);
    let rollout = rollout.and_then(|e| rollout::read(e, findings));
    let from_parent = fields.optional("from_above").filter(|_| author == Author::Parent);
    one_alpha(&stages, rollout.as_ref(), findings);
    let places = TextPlaces {
        area: fields.optional("target").and_then(|e| inner(e, "area")).map(|at| findings.place(at)),
        start: fields.optional("rollout").and_then(|e| inner(e, "start")).map(|at| findings.place(at)),
        versions: functions.iter().map(|function| function.places.clone()).collect(),
    };
    Some(StrategyDraft {
        id,
        name: name.map(|n| n.value),
        kind,
        functions,
        stages,
        on_conflict: fields
            .optional("on_conflict")
            .and_then(|e| on_conflict(e, findings))
            .unwrap_or_default(),
        deadlines: ReleaseDeadlines {
            offer: deadline("offer_deadline", findings),
            setup_grace: deadline("setup_grace", findings),
            stage: deadline("stage_deadline", findings),
        },
        stage_deadline_at: fields.optional("stage_deadline").map_or(At::START, |e| e.at),
        target,
        rollout,
        forward_up: fields.optional("forward_up").and_then(|e| truth(e, findings)).unwrap_or_default(),
        from_parent: from_parent.and_then(|e| from_parent::read(e, findings)),
        places,
    })
}

/// Where the value of a key of a mapping stands.
fn inner(entry: FieldEntry<'_>, key: &str) -> Option<At> {
    let NodeKind::Mapping(pairs) = &entry.node.kind else { return None };
    let named = |name: &Node| matches!(&name.kind, NodeKind::Scalar(name) if name == key);
    pairs.iter().find(|(name, _)| named(name)).map(|(_, value)| value.at)
}

/// Every block of analysis.
pub(super) fn analyses<'d>(
    stages: &'d [DraftStage],
    rollout: Option<&'d rollout::RolloutDraft>,
) -> impl Iterator<Item = &'d analysis::AnalysisDraft> {
    let whole = rollout.and_then(|rollout| rollout.analysis.as_ref());
    whole.into_iter().chain(stages.iter().filter_map(|stage| stage.analysis.as_ref()))
}

/// Alpha is shared over all blocks, so that only one can say how much it is.
fn one_alpha(stages: &[DraftStage], rollout: Option<&rollout::RolloutDraft>, findings: &mut Findings<'_>) {
    let mut given: Vec<At> = analyses(stages, rollout).filter_map(|block| block.alpha).collect();
    given.sort_unstable();
    let Some((first, others)) = given.split_first() else { return };
    for at in others {
        let line = first.line;
        let message = format!("alpha belongs to the release as a whole, and line {line} gives it already");
        findings.error(*at, "contradiction", message).fix("keep one of them: it is shared over all metrics");
    }
}

/// A required list with at least one item.
fn list<T>(
    fields: &Fields<'_>,
    key: &str,
    most: usize,
    item: fn(&Node, usize, &mut Findings<'_>) -> Option<T>,
    findings: &mut Findings<'_>,
) -> Vec<T> {
    let Some(entry) = fields.required(key, "and a list below it", findings) else { return Vec::new() };
    if matches!(&entry.node.kind, NodeKind::Sequence(items) if items.is_empty()) {
        findings.error(entry.at, "missing-value", format!("{key} is empty")).fix("name at least one");
    }
    let items = entry.members(most, findings);
    items.iter().enumerate().filter_map(|(at, node)| item(node, at, findings)).collect()
}

pub(super) fn read<T>(
    entry: FieldEntry<'_>,
    code: &'static str,
    parse: fn(&str) -> Result<T, ScalarFault<T>>,
    findings: &mut Findings<'_>,
) -> Option<T> {
    let text = entry.text(findings)?;
    match parse(text.value) {
        Ok(value) => Some(value),
        Err(fault) => {
            let value = fault.value.filter(|_| findings.is_stored());
            let found = match value {
                Some(_) => findings.broken_rule(text.at, code, fault.message),
                None => findings.error(text.at, code, fault.message),
            };
            found.fix(fault.fix);
            value
        }
    }
}

/// One of a few words.
pub(super) fn word<T: Copy>(
    entry: FieldEntry<'_>,
    what: &str,
    known: &[(&'static str, T)],
    findings: &mut Findings<'_>,
) -> Option<T> {
    let text = entry.text(findings)?;
    if let Some((_, value)) = known.iter().find(|(name, _)| *name == text.value) {
        return Some(*value);
    }
    let words = known.iter().map(|(name, _)| *name);
    let found =
        findings.error(text.at, "unknown-value", format!("there is no {what} {}", quoted(text.value)));
    match nearest(text.value, words.clone()) {
        Some(near) => found.fix(format!("did you mean {near}?")),
        None => found.fix(format!("it is one of {}", words.collect::<Vec<_>>().join(", "))),
    }
    None
}

fn release_id(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<ReleaseId> {
    let text = entry.text(findings)?;
    match ReleaseId::parse(text.value) {
        Ok(id) => Some(id),
        Err(error) => {
            findings
                .error(text.at, "bad-id", error.to_string())
                .fix("write letters, digits and . _ ~ -, as in 11 or sieve-2026.1");
            None
        }
    }
}

pub(super) fn name(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Located<String>> {
    let text = entry.text(findings)?;
    let fault = if text.value.trim().is_empty() {
        format!("{} is empty", entry.key)
    } else if text.value.len() > MAX_NAME_BYTES && !findings.is_stored() {
        format!("{} is longer than {MAX_NAME_BYTES} bytes", entry.key)
    } else if text.value.chars().any(char::is_control) {
        format!("{} contains a line break or another control character", entry.key)
    } else {
        return Some(Located { value: text.value.to_owned(), at: text.at });
    };
    findings.error(text.at, "bad-name", fault).fix("write a short text on one line");
    None
}

/// Free text: like a name, but it may be empty.
fn name_text(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<String> {
    match &entry.node.kind {
        NodeKind::Scalar(text) if text.is_empty() => Some(String::new()),
        _ => name(entry, findings).map(|n| n.value),
    }
}

fn on_conflict(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<OnConflict> {
    let known =
        [("queue", OnConflict::Queue), ("refuse", OnConflict::Refuse), ("supersede", OnConflict::Supersede)];
    word(entry, "on_conflict", &known, findings)
}

/// YAML 1.2 knows no other spellings.
pub(super) fn truth(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<bool> {
    let text = entry.text(findings)?;
    let truth = text.value.parse().ok();
    if truth.is_none() {
        let message = format!("{} is true or false, not {}", entry.key, quoted(text.value));
        findings.error(text.at, "unknown-value", message).fix("write true or false");
    }
    truth
}

/// The block says what a roll-back restores. There is one thing it can restore, so it is checked and not kept.
fn rollback(fields: &Fields<'_>, findings: &mut Findings<'_>) {
    let Some(entry) = fields.optional("rollback") else { return };
    let Some(block) = Fields::open(entry.node, "rollback".to_owned(), &["action"], findings) else {
        return;
    };
    let Some(entry) = block.required("action", "and below it function: base_version", findings) else {
        return;
    };
    let Some(action) = Fields::open(entry.node, "the rollback action".to_owned(), &["function"], findings)
    else {
        return;
    };
    if let Some(entry) = action.required("function", "base_version", findings) {
        word(entry, "version to roll back to called", &[("base_version", ())], findings);
    }
}

/// `stage "Canary"`, or `stage 2` where it has no name to call it by.
pub(super) fn title(noun: &str, node: &Node, index: usize) -> String {
    if let NodeKind::Mapping(entries) = &node.kind {
        for (key, value) in entries {
            if let (NodeKind::Scalar(key), NodeKind::Scalar(name)) = (&key.kind, &value.kind)
                && key == "name"
            {
                return format!("{noun} {}", quoted(name));
            }
        }
    }
    format!("{noun} {}", index + 1)
}

fn function(node: &Node, index: usize, findings: &mut Findings<'_>) -> Option<DraftFunction> {
    let keys = ["name", "base_version", "new_version", "sticky"];
    let fields = Fields::open(node, title("function", node, index), &keys, findings)?;
    let version = |key: &str, findings: &mut Findings<'_>| {
        let entry = fields.required(key, "and below it path: and env:", findings)?;
        let what = format!("{key} of {}", fields.what());
        let version = Fields::open(entry.node, what, &["path", "env"], findings)?;
        let path = version.required("path", "fns/sample_f1", findings);
        let path_at = path.map_or(version.at(), |e| e.at);
        let path = path.and_then(|e| read(e, "bad-path", scalar::folder, findings));
        let env = version.required("env", "nodejs", findings).and_then(|e| name(e, findings));
        let env = env?;
        if let Some(meant) = runtime::meant(&env.value) {
            let message = format!("no platform is known for a runtime called {}", quoted(&env.value));
            findings.warning(env.at, "unknown-runtime", message).fix(format!("did you mean {meant}?"));
        }
        let place = VersionPlace { path: findings.place(path_at), env: findings.place(env.at) };
        Some((Version { path: path?, env: env.value }, place))
    };
    let (base, new) = (version("base_version", findings), version("new_version", findings));
    let place = |version: &Option<(Version, VersionPlace)>| {
        version.as_ref().map(|(_, place)| place.clone()).unwrap_or_default()
    };
    let places = [place(&base), place(&new)];
    Some(DraftFunction {
        at: fields.at(),
        name: fields.required("name", "sieve", findings).and_then(|e| name(e, findings)),
        base: base.map(|(version, _)| version),
        new: new.map(|(version, _)| version),
        sticky: fields
            .filled("sticky", "{cookie: session}", findings)
            .and_then(|entry| sticky::read(entry, findings)),
        places,
    })
}

fn stage(node: &Node, index: usize, findings: &mut Findings<'_>) -> Option<DraftStage> {
    let keys = [
        "name",
        "type",
        "func_name",
        "variants",
        "metrics_conditions",
        "end_conditions",
        "end_action",
        "analysis",
    ];
    let fields = Fields::open(node, title("stage", node, index), &keys, findings)?;
    let kinds = [("A/B", StageKind::AB), ("WaitForSignal", StageKind::WaitForSignal)];
    let kind = fields.required("type", "WaitForSignal", findings);
    let (min_duration, min_calls) = minima(&fields, findings);
    let (on_success, on_failure) = actions(&fields, findings);
    let new_traffic = variants(&fields, findings);
    let analysis = fields.filled("analysis", "and below it duration:, interval: and metrics:", findings);
    Some(DraftStage {
        at: fields.at(),
        name: fields.required("name", "Canary 5 Percent", findings).and_then(|e| name(e, findings)),
        kind: kind.and_then(|e| word(e, "stage type", &kinds, findings)),
        function: fields.required("func_name", "sieve", findings).and_then(|e| name(e, findings)),
        new_traffic,
        conditions: conditions(&fields, findings),
        min_duration,
        min_calls,
        on_success,
        on_failure,
        analysis: analysis.and_then(|e| analysis::read(e, AnalysisPlace::Stage { new_traffic }, findings)),
    })
}

/// The new version's share. Both variants must be there: a forgotten one is rather a fault than a wish.
fn variants(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<u8> {
    let entry = fields.required("variants", "and below it base_version and new_version", findings)?;
    let names = [("base_version", 0_usize), ("new_version", 1)];
    let mut shares: [Option<Option<u8>>; 2] = [None, None];
    let mut unnamed = false;
    for (index, node) in entry.items(MAX_CONDITIONS, findings).iter().enumerate() {
        let what = format!("{} of {}", title("variant", node, index), fields.what());
        let variant = Fields::open(node, what, &["name", "trafficPercentage"], findings);
        let Some(variant) = variant else {
            unnamed = true;
            continue;
        };
        let which = variant.required("name", "new_version", findings);
        let which = which.and_then(|e| word(e, "variant", &names, findings));
        let share = variant.required("trafficPercentage", "5", findings);
        let share = share.and_then(|e| read(e, "bad-percentage", scalar::percentage, findings));
        match which {
            None => unnamed = true,
            Some(which) if shares[which].is_some() => {
                let message = format!("{} names {} twice", fields.what(), names[which].0);
                findings.error(variant.at(), "duplicate-name", message).fix("keep one of the two");
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
    let items = entry.items(MAX_CONDITIONS, findings);
    items.iter().enumerate().filter_map(|(i, node)| condition(fields.what(), node, i, findings)).collect()
}

#[derive(Clone, Copy)]
enum MetricName {
    ErrorRate,
    ResponseTime,
}

fn condition(stage: &str, node: &Node, index: usize, findings: &mut Findings<'_>) -> Option<Condition> {
    let what = format!("{} of {stage}", title("condition", node, index));
    let fields = Fields::open(node, what, &["name", "threshold", "compareWith"], findings)?;
    let names = [("errorRate", MetricName::ErrorRate), ("responseTime", MetricName::ResponseTime)];
    let metric = fields.required("name", "errorRate", findings);
    let metric = metric.and_then(|e| word(e, "metric", &names, findings));
    let entry = fields.required("threshold", "\"<0.02\"", findings);
    let limit = entry.and_then(|e| read(e, "bad-threshold", scalar::threshold, findings));
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
    let (operator, threshold) = limit?;
    in_range(metric, operator, threshold, at, findings)
}

fn in_range(
    metric: Metric,
    operator: Operator,
    threshold: f64,
    at: At,
    findings: &mut Findings<'_>,
) -> Option<Condition> {
    match metric {
        Metric::ErrorRate if threshold > 1.0 => {
            let share = threshold / 100.0;
            findings
                .error(at, "bad-threshold", format!("errorRate is a share from 0 to 1, not {threshold}"))
                .fix(format!("write \"{}{share}\" for {threshold} %", scalar::sign(operator)));
            None
        }
        Metric::ResponseTime(_) if threshold > scalar::MAX_RESPONSE_TIME_MS && !findings.is_stored() => {
            findings
                .error(at, "bad-threshold", "responseTime is in milliseconds, this is over eleven days")
                .fix("write \"<=250\" for 250 ms");
            None
        }
        _ => Some(Condition { metric, operator, threshold }),
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
        let what = format!("{} of {}", title("end condition", node, index), fields.what());
        let Some(item) = Fields::open(node, what, &["name", "threshold"], findings) else { continue };
        let name = item.required("name", "minDuration", findings);
        let is_duration = name
            .and_then(|e| word(e, "end condition", &[("minDuration", true), ("minCalls", false)], findings));
        let Some(limit) = item.required("threshold", "10s", findings) else { continue };
        let twice = match is_duration {
            None => continue,
            Some(true) => duration.replace(read(limit, "bad-duration", scalar::duration, findings)).is_some(),
            Some(false) => calls.replace(read(limit, "bad-count", scalar::calls, findings)).is_some(),
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
    let success = action.required("onSuccess", "rollout", findings).and_then(|e| name(e, findings));
    (success, action.optional("onFailure").and_then(|e| name(e, findings)))
}
