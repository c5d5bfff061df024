//! One metric: its keys read, then the rules between them.
//!
//! The two steps are apart because a named template is checked when it is read, where half of the keys may be missing.

use std::{collections::BTreeSet, time::Duration};

use super::{
    CHILDREN, ChildMetric, Comparison, DEFAULT_FLOOR, DEFAULT_TOLERANCE, Deviation, MAX_QUERY_BYTES, Metric,
    MetricSource, ProviderQuery, Query, QueryArgs, Reference, Rule, Tolerance, Variable, Variant,
    amount::{self, Written},
    block::{self, AnalysisPlace, Schedule},
    query,
};
use crate::{
    diagnostic::{Findings, nearest, quoted},
    fields::{FieldEntry, Fields, Located},
    parse,
    raw::{At, NodeKind},
    scalar::{ScalarFault, duration, fault},
};

/// Most arguments of one kind.
const MAX_ARGS: usize = 64;

/// The keys of a metric. Those of a template are the same without `name` and `template`.
pub(super) const KEYS: [&str; 22] = [
    "name",
    "provider",
    "strategy",
    "interval",
    "query",
    "metric",
    "expected",
    "deviation",
    "tolerance",
    "floor",
    "quantile",
    "weight",
    "baselineArgs",
    "canaryArgs",
    "primaryArgs",
    "appArgs",
    "namespace",
    "failureLimit",
    "runVariation",
    "jsonPath",
    "dryRun",
    "template",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Threshold,
    Previous,
    Baseline,
    Primary,
}

const STRATEGIES: [(&str, Named); 4] = [
    ("THRESHOLD", Named::Threshold),
    ("PREVIOUS", Named::Previous),
    ("CANARY_BASELINE", Named::Baseline),
    ("CANARY_PRIMARY", Named::Primary),
];

/// The value of a key, if it was given and could be read.
enum Given<T> {
    No,
    /// Given, and reported.
    Unread(At),
    Yes(Located<T>),
}

impl<T> Given<T> {
    fn at(&self) -> Option<At> {
        match self {
            Self::No => None,
            Self::Unread(at) => Some(*at),
            Self::Yes(found) => Some(found.at),
        }
    }

    fn value(&self) -> Option<&T> {
        match self {
            Self::Yes(found) => Some(&found.value),
            _ => None,
        }
    }
}

/// Every key of a metric, read by itself.
pub(super) struct MetricKeys {
    provider: Given<String>,
    strategy: Given<Named>,
    query: Given<Query>,
    metric: Given<ChildMetric>,
    expected: Given<(Option<f64>, Option<f64>)>,
    deviation: Given<Deviation>,
    tolerance: Given<Written>,
    floor: Given<f64>,
    quantile: Given<f64>,
    weight: Given<f64>,
    baseline_args: Given<QueryArgs>,
    canary_args: Given<QueryArgs>,
    primary_args: Given<QueryArgs>,
    app_args: Given<QueryArgs>,
    namespace: Given<String>,
    interval: Given<Duration>,
    failure_limit: Given<u32>,
    run_variation: Given<f64>,
    json_path: Given<String>,
    dry_run: Given<bool>,
}

impl MetricKeys {
    pub fn read(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Self {
        let deviations = [("LOW", Deviation::Low), ("HIGH", Deviation::High), ("EITHER", Deviation::Either)];
        let metrics = [("responseTime", ChildMetric::ResponseTime), ("errorRate", ChildMetric::ErrorRate)];
        Self {
            provider: take(fields, "provider", "children", findings, |entry, findings| {
                parse::name(entry, findings).map(|name| name.value)
            }),
            strategy: take(fields, "strategy", "CANARY_BASELINE", findings, |entry, findings| {
                parse::word(entry, "strategy", &STRATEGIES, findings)
            }),
            query: take(fields, "query", "up{variant=\"{{ .Variant.Name }}\"}", findings, read_query),
            metric: take(fields, "metric", "responseTime", findings, |entry, findings| {
                parse::word(entry, "metric of children", &metrics, findings)
            }),
            expected: take(fields, "expected", "{max: 0.1}", findings, read_expected),
            deviation: take(fields, "deviation", "HIGH", findings, |entry, findings| {
                parse::word(entry, "deviation", &deviations, findings)
            }),
            tolerance: scalar(fields, "tolerance", "5%", amount::tolerance, findings),
            floor: scalar(fields, "floor", "0.1%", amount::share, findings),
            quantile: scalar(fields, "quantile", "p99", amount::quantile, findings),
            weight: scalar(fields, "weight", "2", amount::weight, findings),
            baseline_args: take(fields, "baselineArgs", "{job: base}", findings, args),
            canary_args: take(fields, "canaryArgs", "{job: new}", findings, args),
            primary_args: take(fields, "primaryArgs", "{job: main}", findings, args),
            app_args: take(fields, "appArgs", "{job: sieve}", findings, args),
            namespace: scalar(fields, "namespace", "shop", amount::namespace, findings),
            interval: take(fields, "interval", "5m", findings, read_interval),
            failure_limit: scalar(fields, "failureLimit", "2", amount::limit, findings),
            run_variation: scalar(fields, "runVariation", "3%", amount::variation, findings),
            json_path: take(fields, "jsonPath", "$.values[*]", findings, read_json_path),
            dry_run: scalar(fields, "dryRun", "true", amount::truth, findings),
        }
    }
}

fn take<'n, T>(
    fields: &Fields<'n>,
    key: &str,
    example: &str,
    findings: &mut Findings<'_>,
    read: impl FnOnce(FieldEntry<'n>, &mut Findings<'_>) -> Option<T>,
) -> Given<T> {
    let Some(entry) = fields.filled(key, example, findings) else {
        return fields.place(key).map_or(Given::No, Given::Unread);
    };
    match read(entry, findings) {
        Some(value) => Given::Yes(Located { value, at: entry.at }),
        None => Given::Unread(entry.at),
    }
}

fn scalar<T>(
    fields: &Fields<'_>,
    key: &str,
    example: &str,
    read: fn(&str) -> Result<T, ScalarFault<T>>,
    findings: &mut Findings<'_>,
) -> Given<T> {
    take(fields, key, example, findings, |entry, findings| {
        parse::read(entry, "bad-analysis-value", read, findings)
    })
}

fn read_interval(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Duration> {
    let interval = parse::read(entry, "bad-duration", duration, findings)?;
    block::long_enough(interval, entry.at, findings)
}

fn read_query(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Query> {
    let text = entry.text(findings)?;
    if text.value.len() > MAX_QUERY_BYTES && !findings.is_stored() {
        let message = format!("the query is longer than {MAX_QUERY_BYTES} bytes");
        findings.error(text.at, "bad-query", message).fix("ask for less");
        return None;
    }
    match Query::read(text.value) {
        Ok(query) => Some(query),
        Err(faults) => {
            for fault in faults {
                let at = place_of(&fault.piece, text.value, text.at, findings);
                findings.error(at, "bad-query", fault.message).fix(fault.fix);
            }
            None
        }
    }
}

/// Where a piece of a scalar stands, which may go over several lines.
fn place_of(piece: &str, whole: &str, at: At, findings: &Findings<'_>) -> At {
    // A block scalar begins a line after its mark; one that was folded has more lines than are left of it.
    let lines = 2 + whole.lines().count() as u32 * 2;
    let found = (!piece.is_empty()).then(|| {
        (at.line..at.line.saturating_add(lines)).find_map(|line| {
            let text = findings.line(line)?;
            let byte = text.find(piece)?;
            Some(At { line, column: text[..byte].chars().count() as u32 + 1 })
        })
    });
    found.flatten().unwrap_or(at)
}

fn read_json_path(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<String> {
    let text = entry.text(findings)?;
    match json_path(text.value) {
        Ok(path) => Some(path),
        Err(fault) => {
            findings.error(text.at, "bad-path-expression", fault.message).fix(fault.fix);
            None
        }
    }
}

/// An expression of RFC 9535.
pub(super) fn json_path(text: &str) -> Result<String, ScalarFault<String>> {
    match serde_json_path::JsonPath::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(fault(
            format!("{} is no path into JSON: {error}", quoted(text)),
            "write it as RFC 9535 has it, as in $.values[*]",
        )),
    }
}

fn read_expected(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<(Option<f64>, Option<f64>)> {
    let fields = Fields::open(entry.node, "expected".to_owned(), &["min", "max"], findings)?;
    let mut bound = |key: &str| match scalar(&fields, key, "0.1", amount::bound, findings) {
        Given::No => Ok(None),
        Given::Unread(_) => Err(()),
        Given::Yes(found) => Ok(Some(found.value)),
    };
    let (min, max) = (bound("min"), bound("max"));
    let (min, max) = (min.ok()?, max.ok()?);
    match (min, max) {
        (None, None) => {
            findings
                .error(entry.at, "missing-value", "expected names neither min nor max")
                .fix("write expected: {max: 0.1}, or min, or both");
            None
        }
        (Some(min), Some(max)) if min > max => {
            findings
                .error(entry.at, "contradiction", format!("nothing is at least {min} and at most {max}"))
                .fix("exchange min and max");
            None
        }
        _ => Some((min, max)),
    }
}

fn args(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<QueryArgs> {
    let key = entry.key;
    let NodeKind::Mapping(pairs) = &entry.node.kind else {
        let message = format!("{key} is not a mapping");
        findings.error(entry.at, "wrong-type", message).fix(format!("write {key}: {{name: value}}"));
        return None;
    };
    if pairs.len() > MAX_ARGS && !findings.is_stored() {
        let message = format!("{key} has {} arguments, at most {MAX_ARGS} are possible", pairs.len());
        findings.error(entry.at, "too-many", message).fix("give fewer");
        return None;
    }
    let mut args = QueryArgs::new();
    let mut sound = true;
    for (name, value) in pairs {
        let (NodeKind::Scalar(word), NodeKind::Scalar(value)) = (&name.kind, &value.kind) else {
            let message = format!("an argument of {key} has no name or no single value");
            findings.error(name.at, "wrong-type", message).fix("write name: value");
            sound = false;
            continue;
        };
        if !query::is_name(word) {
            let message = format!("a query can't name the argument {}", quoted(word));
            findings.error(name.at, "bad-name", message).fix("use letters, digits and _");
            sound = false;
        } else if args.insert(word.clone(), value.clone()).is_some() {
            let message = format!("{key} has the argument {} twice", quoted(word));
            findings.error(name.at, "duplicate-key", message).fix("keep one of the two");
            sound = false;
        }
    }
    sound.then_some(args)
}

/// What the rules of a metric need to know of what is around it.
pub(super) struct Around<'a> {
    pub what: &'a str,
    pub at: At,
    pub place: AnalysisPlace,
    pub schedule: &'a Schedule,
    pub failure_limit: u32,
    pub dry_run: bool,
}

/// Checks the rules between the keys, all of them, and builds the metric if it is whole.
pub(super) fn finish(
    name: Option<String>,
    values: &MetricKeys,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<Metric> {
    let strategy = match &values.strategy {
        Given::No => Some(Named::Threshold),
        given => given.value().copied(),
    };
    let dry_run = values.dry_run.value().copied().unwrap_or(around.dry_run);
    let source = source(values, strategy, around, findings);
    let rule = strategy.and_then(|strategy| match strategy {
        Named::Threshold => threshold(values, around, findings),
        _ => compare(values, strategy, dry_run, around, findings).map(Rule::Compare),
    });
    // What children report is compared once, when all have reported: it can't be crossed twice.
    let is_once = matches!((&source, &rule), (Some(MetricSource::Children(_)), Some(Rule::Compare(_))))
        && !around.schedule.is_open;
    let inherited = if is_once { 0 } else { around.failure_limit };
    let failure_limit = values.failure_limit.value().copied().unwrap_or(inherited);
    let own = values.interval.value().copied();
    let looks = if is_once { Some(1) } else { around.schedule.looks_at(own) };
    if let (Some(at), Some(looks)) =
        (values.failure_limit.at().filter(|_| failure_limit > 0 || !is_once), looks)
        && u64::from(failure_limit) >= looks
    {
        never_passed("failureLimit", failure_limit, looks, at, findings);
    }
    let interval = around.schedule.unlike(own);
    Some(Metric { name: name?, source: source?, rule: rule?, failure_limit, dry_run, interval })
}

/// A limit that is as high as there are looks.
pub(super) fn never_passed(key: &str, limit: u32, looks: u64, at: At, findings: &mut Findings<'_>) {
    let why = if looks == 1 {
        "is 1 look".to_owned()
    } else {
        format!("are {looks} looks (duration over interval)")
    };
    let message = format!("{key}: {limit} is never passed, for there {why}");
    findings.error(at, "contradiction", message).fix(format!("write less than {looks}, or look more often"));
}

fn no_effect(key: &str, at: Option<At>, why: &str, fix: &str, findings: &mut Findings<'_>) {
    if let Some(at) = at {
        findings.error(at, "no-effect", format!("{key} has a meaning only with {why}")).fix(fix);
    }
}

fn source(
    values: &MetricKeys,
    strategy: Option<Named>,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<MetricSource> {
    let provider = match &values.provider {
        Given::Yes(provider) => provider,
        Given::No => {
            findings
                .error(around.at, "missing-key", format!("{} lacks provider", around.what))
                .fix("write provider: children, or the name of a provider that is configured");
            return None;
        }
        Given::Unread(_) => return None,
    };
    if provider.value == CHILDREN {
        return children(values, strategy, around, findings).map(MetricSource::Children);
    }
    no_effect("metric", values.metric.at(), "provider: children", "write a query instead", findings);
    let query = match &values.query {
        Given::Yes(query) => query,
        Given::No => {
            findings
                .error(around.at, "missing-key", format!("{} lacks query", around.what))
                .fix("write what to ask the provider, as in query: up{variant=\"{{ .Variant.Name }}\"}");
            return None;
        }
        Given::Unread(_) => return None,
    };
    let args = |given: &Given<QueryArgs>| given.value().cloned().unwrap_or_default();
    let names = |wanted: &Variable| query.value.variables().any(|variable| variable == wanted);
    let asked = ProviderQuery {
        provider: provider.value.clone(),
        query: query.value.clone(),
        json_path: values.json_path.value().cloned(),
        baseline_args: args(&values.baseline_args),
        canary_args: args(&values.canary_args),
        primary_args: args(&values.primary_args),
        app_args: args(&values.app_args),
        namespace: values.namespace.value().filter(|_| names(&Variable::Namespace)).cloned(),
    };
    if let Some(strategy) = strategy {
        foreign_args(values, strategy, findings);
        bound(values, &asked, strategy, query, findings);
    }
    Some(MetricSource::Query(Box::new(asked)))
}

fn children(
    values: &MetricKeys,
    strategy: Option<Named>,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<ChildMetric> {
    let keys = [
        ("query", values.query.at()),
        ("jsonPath", values.json_path.at()),
        ("baselineArgs", values.baseline_args.at()),
        ("canaryArgs", values.canary_args.at()),
        ("primaryArgs", values.primary_args.at()),
        ("appArgs", values.app_args.at()),
    ];
    for (key, at) in keys {
        let why = "a configured provider: children report, and take no questions";
        no_effect(key, at, why, &format!("leave {key} out"), findings);
    }
    if let (Some(Named::Primary), Some(at)) = (strategy, values.strategy.at()) {
        let message = "children report of the base version only what it did beside the new one, \
                       which is CANARY_BASELINE; of CANARY_PRIMARY they know nothing";
        findings.error(at, "contradiction", message).fix("write strategy: CANARY_BASELINE");
    }
    if let (Some(Named::Baseline), AnalysisPlace::Stage { new_traffic: Some(share @ (0 | 100)) }) =
        (strategy, around.place)
        && let Some(at) = values.provider.at()
    {
        let side = if share == 0 { "new" } else { "base" };
        let message =
            format!("the stage gives the {side} version no traffic, so there is nothing to compare");
        findings
            .error(at, "contradiction", message)
            .fix("give both versions traffic, or use another strategy or provider");
    }
    if matches!(values.metric, Given::No) {
        findings
            .error(around.at, "missing-key", format!("{} lacks metric", around.what))
            .fix("write metric: responseTime or metric: errorRate");
    }
    values.metric.value().copied()
}

/// The variants whose numbers a strategy asks for.
fn sides(strategy: Named, values: &MetricKeys) -> &'static [Variant] {
    match strategy {
        Named::Threshold => &[Variant::Canary],
        // Without a given variation the base version's earlier weeks tell it.
        Named::Previous => match (&values.primary_args, &values.run_variation) {
            (Given::No, Given::No) => &[Variant::Canary, Variant::Baseline],
            (Given::No, _) => &[Variant::Canary],
            (_, Given::No) => &[Variant::Primary, Variant::Baseline],
            _ => &[Variant::Primary],
        },
        Named::Baseline => &[Variant::Canary, Variant::Baseline],
        Named::Primary => &[Variant::Canary, Variant::Primary],
    }
}

const fn args_key(variant: Variant) -> &'static str {
    match variant {
        Variant::Baseline => "baselineArgs",
        Variant::Canary => "canaryArgs",
        Variant::Primary => "primaryArgs",
    }
}

fn foreign_args(values: &MetricKeys, strategy: Named, findings: &mut Findings<'_>) {
    let given = [
        (Variant::Baseline, values.baseline_args.at(), "CANARY_BASELINE, and PREVIOUS without runVariation"),
        (
            Variant::Canary,
            values.canary_args.at(),
            "THRESHOLD, CANARY_BASELINE, CANARY_PRIMARY, and PREVIOUS without primaryArgs",
        ),
        (Variant::Primary, values.primary_args.at(), "CANARY_PRIMARY and PREVIOUS"),
    ];
    for (variant, at, of) in given {
        if !sides(strategy, values).contains(&variant) {
            let key = args_key(variant);
            no_effect(key, at, &format!("strategy: {of}"), &format!("leave {key} out"), findings);
        }
    }
}

/// Every variable has a value on every side, every value is used, and the sides differ.
fn bound(
    values: &MetricKeys,
    asked: &ProviderQuery,
    strategy: Named,
    query: &Located<Query>,
    findings: &mut Findings<'_>,
) {
    let (at, text) = (query.at, query.value.text());
    let mut whole = true;
    let variables: Vec<&Variable> = query.value.variables().collect();
    let mut seen = BTreeSet::new();
    for variable in &variables {
        let missing: Vec<(&str, &Given<QueryArgs>, &String)> = match variable {
            Variable::VariantArg(name) => sides(strategy, values)
                .iter()
                .filter(|side| !asked.args(**side).contains_key(name))
                .map(|side| (args_key(*side), given_args(values, *side), name))
                .collect(),
            Variable::AppArg(name) if name == query::NAME && !asked.app_args.contains_key(name) => {
                if seen.insert(("", name.clone())) {
                    let at = place_of(&variable.to_string(), text, at, findings);
                    findings
                        .warning(
                            at,
                            "renamed-variable",
                            "appArgs has no Name, so the function's name is put in",
                        )
                        .fix("write {{ .BuiltInArgs.App.Name }}, or give it, as in appArgs: {Name: value}");
                }
                Vec::new()
            }
            Variable::AppArg(name) if !asked.app_args.contains_key(name) => {
                vec![("appArgs", &values.app_args, name)]
            }
            _ => Vec::new(),
        };
        for (key, given, name) in missing {
            whole = false;
            // What couldn't be read was reported, and may hold it.
            if matches!(given, Given::Unread(_)) || !seen.insert((key, name.clone())) {
                continue;
            }
            let at = place_of(&variable.to_string(), text, at, findings);
            let known = given.value().into_iter().flat_map(|args| args.keys().map(String::as_str));
            let near = nearest(name, known);
            let found = findings.error(
                at,
                "unknown-variable",
                format!("the query names {variable}, but {key} has no {name}"),
            );
            match near {
                Some(near) => found.fix(format!("did you mean {near}?")),
                None if strategy == Named::Previous && key == "baselineArgs" => found.fix(format!(
                    "the same hours of earlier weeks are asked for: add it, as in {key}: {{{name}: value}}, or write \
                     runVariation: 3%"
                )),
                None => found.fix(format!("add it, as in {key}: {{{name}: value}}")),
            }
        }
    }
    if variables.contains(&&Variable::Namespace) && matches!(values.namespace, Given::No) {
        whole = false;
        let at = place_of(&Variable::Namespace.to_string(), text, at, findings);
        findings
            .error(at, "unknown-variable", "the query names a namespace, and the release has none")
            .fix("write namespace: NAME into the release, or {{ .AppArgs.namespace }} and appArgs: {namespace: NAME}");
    }
    unused(values, &variables, findings);
    if let (Named::Baseline | Named::Primary, [canary, other], true) =
        (strategy, sides(strategy, values), whole)
    {
        let of = |side: Variant| asked.text_in(side, "f", (0, 0), super::Escape::PromQl);
        if of(*canary) == of(*other) {
            findings
                .error(at, "contradiction", "the query asks for the same on both sides: it names no variant")
                .fix("name it, as in {variant=\"{{ .Variant.Name }}\"}, or use .VariantArgs with arguments that differ");
        }
    }
}

const fn given_args(values: &MetricKeys, variant: Variant) -> &Given<QueryArgs> {
    match variant {
        Variant::Baseline => &values.baseline_args,
        Variant::Canary => &values.canary_args,
        Variant::Primary => &values.primary_args,
    }
}

fn unused(values: &MetricKeys, variables: &[&Variable], findings: &mut Findings<'_>) {
    let variant = |name: &str| variables.iter().any(|v| matches!(v, Variable::VariantArg(n) if n == name));
    let app = |name: &str| variables.iter().any(|v| matches!(v, Variable::AppArg(n) if n == name));
    let mut report = |key: &str, given: &Given<QueryArgs>, used: &dyn Fn(&str) -> bool, group: &str| {
        let Given::Yes(args) = given else { return };
        for name in args.value.keys().filter(|name| !used(name)) {
            findings
                .warning(args.at, "no-effect", format!("the query doesn't name the argument {name} of {key}"))
                .fix(format!("write {{{{ .{group}.{name} }}}} into the query, or leave the argument out"));
        }
    };
    for side in [Variant::Baseline, Variant::Canary, Variant::Primary] {
        report(args_key(side), given_args(values, side), &variant, "VariantArgs");
    }
    report("appArgs", &values.app_args, &app, "AppArgs");
}

fn threshold(values: &MetricKeys, around: &Around<'_>, findings: &mut Findings<'_>) -> Option<Rule> {
    let keys = [
        ("deviation", values.deviation.at()),
        ("tolerance", values.tolerance.at()),
        ("floor", values.floor.at()),
        ("weight", values.weight.at()),
        ("runVariation", values.run_variation.at()),
    ];
    for (key, at) in keys {
        let why = "a strategy that compares, and this one is THRESHOLD";
        no_effect(key, at, why, &format!("write strategy: CANARY_BASELINE, or leave {key} out"), findings);
    }
    if !matches!(values.metric.value(), Some(ChildMetric::ResponseTime)) {
        let why = "provider: children and metric: responseTime, or a strategy that compares";
        no_effect("quantile", values.quantile.at(), why, "leave quantile out", findings);
    }
    let (min, max) = match &values.expected {
        Given::Yes(expected) => expected.value,
        Given::No => {
            findings.error(around.at, "missing-key", format!("{} lacks expected", around.what)).fix(
                "write expected: {max: 0.1}, or a strategy that compares, as in strategy: CANARY_BASELINE",
            );
            return None;
        }
        Given::Unread(_) => return None,
    };
    Some(Rule::Threshold { min, max, quantile: values.quantile.value().copied() })
}

fn compare(
    values: &MetricKeys,
    strategy: Named,
    dry_run: bool,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<Comparison> {
    no_effect(
        "expected",
        values.expected.at(),
        "strategy: THRESHOLD, and this one compares",
        "leave expected out, or write strategy: THRESHOLD",
        findings,
    );
    if strategy != Named::Previous {
        let at = values.run_variation.at();
        no_effect("runVariation", at, "strategy: PREVIOUS", "leave runVariation out", findings);
    }
    if dry_run {
        let at = values.weight.at();
        no_effect("weight", at, "a share in alpha, and a dry run has none", "leave weight out", findings);
    }
    let is_rate = matches!(values.metric.value(), Some(ChildMetric::ErrorRate));
    if is_rate {
        let why = "response times, and a rate has no quantiles";
        no_effect("quantile", values.quantile.at(), why, "leave quantile out", findings);
    } else {
        let at = values.floor.at();
        no_effect("floor", at, "provider: children and metric: errorRate", "leave floor out", findings);
    }
    doubt(values, strategy, findings);
    let deviation = values.deviation.value().copied().unwrap_or_default();
    let tolerance = tolerance(values, deviation, is_rate, findings);
    needs_an_end(values, strategy, around, findings);
    let with = match strategy {
        Named::Baseline => Reference::Baseline,
        Named::Primary => Reference::Primary,
        Named::Previous => Reference::Previous { run_variation: values.run_variation.value().copied() },
        Named::Threshold => return None,
    };
    Some(Comparison {
        with,
        deviation,
        tolerance: tolerance?,
        floor: values.floor.value().copied().unwrap_or(if is_rate { DEFAULT_FLOOR } else { 0.0 }),
        quantile: values.quantile.value().copied(),
        weight: values.weight.value().copied().unwrap_or(1.0),
    })
}

/// What can be judged, though not well.
fn doubt(values: &MetricKeys, strategy: Named, findings: &mut Findings<'_>) {
    let Some(at) = values.strategy.at() else { return };
    match (strategy, &values.run_variation) {
        (Named::Primary, _) => {
            let message = "CANARY_PRIMARY compares a fresh canary with a primary that has run for long, and is of another size";
            findings
                .warning(at, "unequal-sides", message)
                .fix("set up a baseline beside the canary, and write strategy: CANARY_BASELINE");
        }
        (Named::Previous, Given::No) => {
            let by_children = values.provider.value().is_some_and(|provider| provider == CHILDREN);
            let message = if by_children {
                "how much a version varies from run to run isn't known, and children don't tell: nothing can be decided"
            } else {
                "how much a version varies from run to run must be seen in the same hours of 5 earlier weeks at least"
            };
            findings.warning(at, "unknown-variation", message).fix("write it down, as in runVariation: 3%");
        }
        _ => {}
    }
}

fn tolerance(
    values: &MetricKeys,
    deviation: Deviation,
    is_rate: bool,
    findings: &mut Findings<'_>,
) -> Option<Tolerance> {
    let written = match &values.tolerance {
        Given::No => return Some(Tolerance::Ratio(DEFAULT_TOLERANCE)),
        Given::Unread(_) => return None,
        Given::Yes(written) => written,
    };
    let mut wrong = |message: &str, fix: &str| {
        findings.error(written.at, "bad-tolerance", message).fix(fix);
        None
    };
    let of_children = values.provider.value().is_some_and(|provider| provider == CHILDREN);
    match written.value {
        Written::Ratio(share) if share >= 1.0 && deviation != Deviation::High => wrong(
            "a tolerance of 100 % or more leaves nothing that would be too low",
            "write less than 100%, or deviation: HIGH",
        ),
        Written::Ratio(share) => Some(Tolerance::Ratio(share)),
        _ if is_rate => {
            wrong("a rate takes a relative tolerance", "write a percentage, as in 5%; floor is absolute")
        }
        Written::Time(time) if of_children => Some(Tolerance::Shift(time.as_secs_f64() * 1000.0)),
        Written::Time(_) => wrong(
            "the unit of what a query gives is not known",
            "write a plain number in that unit, as in 0.02 for 20ms where the query gives seconds, or a percentage",
        ),
        Written::Number(_) if of_children => {
            wrong("the tolerance has no unit", "write a share, as in 5%, or a time, as in 20ms")
        }
        Written::Number(number) => Some(Tolerance::Shift(number)),
    }
}

/// Points of a series and earlier runs can't be judged for as long as it takes.
fn needs_an_end(values: &MetricKeys, strategy: Named, around: &Around<'_>, findings: &mut Findings<'_>) {
    let series = values.provider.value().is_some_and(|provider| provider != CHILDREN);
    if around.schedule.is_open && (series || strategy == Named::Previous) {
        let message = format!("{} compares series, for which the end must be known beforehand", around.what);
        findings
            .error(around.at, "contradiction", message)
            .fix("write the duration of the analysis, as in duration: 30m");
    }
}
