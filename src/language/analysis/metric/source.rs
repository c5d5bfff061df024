//! Whose numbers a metric judges: what children report, or the answer of a provider to a query.

use std::collections::BTreeSet;

use super::{
    Around,
    keys::{KeyValue, MetricKeys, Named, place_of, report_no_effect},
};
use crate::{
    analysis::{
        query::{self, Escape, Query, QueryArgs, Variable, Variant},
        schedule::AnalysisPlace,
        spec::{CHILDREN, ChildMetric, MetricSource, Pair, ProviderQuery},
    },
    diagnostic::nearest,
    fields::Located,
    findings::Findings,
    node::At,
};

pub(super) fn read_source(
    values: &MetricKeys,
    strategy: Option<Named>,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<MetricSource> {
    let provider = match &values.provider {
        KeyValue::Yes(provider) => provider,
        KeyValue::No => {
            findings
                .error(around.at, "missing-key", format!("{} lacks provider", around.what))
                .fix("write provider: children, or the name of a provider that is configured");
            return None;
        }
        KeyValue::Unread(_) => return None,
    };
    if provider.value == CHILDREN {
        return read_child_metric(values, strategy, around, findings).map(MetricSource::Children);
    }
    report_no_effect("metric", values.metric.at(), "provider: children", "write a query instead", findings);
    let query = match &values.query {
        KeyValue::Yes(query) => query,
        KeyValue::No => {
            findings
                .error(around.at, "missing-key", format!("{} lacks query", around.what))
                .fix("write what to ask the provider, as in query: up{variant=\"{{ .Variant.Name }}\"}");
            return None;
        }
        KeyValue::Unread(_) => return None,
    };
    let args = |given: &KeyValue<QueryArgs>| given.value().cloned().unwrap_or_default();
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
        report_foreign_args(values, strategy, findings);
        check_variables(values, &asked, strategy, query, findings);
    }
    Some(MetricSource::Query(Box::new(asked)))
}

fn read_child_metric(
    values: &MetricKeys,
    strategy: Option<Named>,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<ChildMetric> {
    let keys = [
        ("query", values.query.at()),
        ("jsonPath", values.json_path.at()),
        ("appArgs", values.app_args.at()),
    ];
    for (key, at) in keys {
        let why = "a configured provider: children report, and take no questions";
        report_no_effect(key, at, why, &format!("leave {key} out"), findings);
    }
    if let Some(strategy) = strategy.filter(|strategy| *strategy != Named::Previous) {
        report_foreign_args(values, strategy, findings);
    }
    check_variation_args(values, strategy, findings);
    if let (Some(Named::Primary), Some(at), KeyValue::No) =
        (strategy, values.strategy.at(), &values.primary_args)
    {
        let message = "children report of the base version only what it did beside the new one, \
                       which is CANARY_BASELINE; of CANARY_PRIMARY they know nothing";
        findings.error(at, "contradiction", message).fix(
            "write strategy: CANARY_BASELINE, or, of a service that runs the stable version a second time, which variation is which: \
             primaryArgs: {variation: A}, canaryArgs: {variation: B}",
        );
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
    if matches!(values.metric, KeyValue::No) {
        findings
            .error(around.at, "missing-key", format!("{} lacks metric", around.what))
            .fix("write metric: responseTime or metric: errorRate");
    }
    values.metric.value().copied()
}

/// The argument by which a side is named where children are asked.
const VARIATION: &str = "variation";

/// Children tell variations of a service apart, and know of no other argument; what they told of an earlier release is of the judged one.
fn check_variation_args(values: &MetricKeys, strategy: Option<Named>, findings: &mut Findings<'_>) {
    for side in [Variant::Baseline, Variant::Canary, Variant::Primary] {
        let (key, given) = (args_key(side), given_args(values, side));
        if strategy == Some(Named::Previous) && side != Variant::Canary {
            let why = "a configured provider: children are asked for the same variation both times";
            report_no_effect(key, given.at(), why, &format!("leave {key} out"), findings);
            continue;
        }
        let KeyValue::Yes(args) = given else { continue };
        for name in args.value.keys().filter(|name| *name != VARIATION) {
            let message = format!("{key} has {name}, and children are asked for nothing but a variation");
            findings
                .error(args.at, "no-effect", message)
                .fix(format!("write {key}: {{{VARIATION}: B}}, or leave it out"));
        }
    }
}

/// The variations that the sides of a metric name; `None`: none is named.
pub(super) fn pair_of(values: &MetricKeys, strategy: Named) -> Option<Pair> {
    let named = |side: Variant| given_args(values, side).value()?.get(VARIATION).cloned();
    let baseline = match strategy {
        Named::Baseline => named(Variant::Baseline),
        Named::Primary => named(Variant::Primary),
        Named::Threshold | Named::Previous => None,
    };
    let pair = Pair { baseline, canary: named(Variant::Canary) };
    (pair != Pair::default()).then_some(pair)
}

/// The variants whose numbers a strategy asks for.
fn sides(strategy: Named, values: &MetricKeys) -> &'static [Variant] {
    match strategy {
        Named::Threshold => &[Variant::Canary],
        // Without a given variation the base version's earlier weeks tell it.
        Named::Previous => match (&values.primary_args, &values.run_variation) {
            (KeyValue::No, KeyValue::No) => &[Variant::Canary, Variant::Baseline],
            (KeyValue::No, _) => &[Variant::Canary],
            (_, KeyValue::No) => &[Variant::Primary, Variant::Baseline],
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

fn report_foreign_args(values: &MetricKeys, strategy: Named, findings: &mut Findings<'_>) {
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
            report_no_effect(key, at, &format!("strategy: {of}"), &format!("leave {key} out"), findings);
        }
    }
}

/// Checks that every variable has a value on every side, that every value is used, and that the sides differ.
fn check_variables(
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
        let place = |findings: &Findings<'_>| place_of(&variable.to_string(), text, at, findings);
        if let Variable::AppArg(name) = variable
            && name == query::NAME
            && !asked.app_args.contains_key(name)
        {
            if seen.insert(("", name.clone())) {
                let at = place(findings);
                findings
                    .warning(at, "renamed-variable", "appArgs has no Name, so the function's name is put in")
                    .fix("write {{ .BuiltInArgs.App.Name }}, or give it, as in appArgs: {Name: value}");
            }
            continue;
        }
        for (key, given, name) in missing_args(variable, values, asked, strategy) {
            whole = false;
            // What couldn't be read was reported, and may hold it.
            if matches!(given, KeyValue::Unread(_)) || !seen.insert((key, name.clone())) {
                continue;
            }
            let at = place(findings);
            report_missing_arg(variable, key, given, name, strategy, at, findings);
        }
    }
    if variables.contains(&&Variable::Namespace) && matches!(values.namespace, KeyValue::No) {
        whole = false;
        let at = place_of(&Variable::Namespace.to_string(), text, at, findings);
        findings
            .error(at, "unknown-variable", "the query names a namespace, and the release has none")
            .fix("write namespace: NAME into the release, or {{ .AppArgs.namespace }} and appArgs: {namespace: NAME}");
    }
    report_unused_args(values, &variables, findings);
    if let (Named::Baseline | Named::Primary, [canary, other], true) =
        (strategy, sides(strategy, values), whole)
    {
        let text_of = |side: Variant| asked.text_in(side, "f", (0, 0), Escape::PromQl);
        if text_of(*canary) == text_of(*other) {
            findings
                .error(at, "contradiction", "the query asks for the same on both sides: it names no variant")
                .fix("name it, as in {variant=\"{{ .Variant.Name }}\"}, or use .VariantArgs with arguments that differ");
        }
    }
}

/// A list of arguments that lacks one: its key, what was given under it, and the argument's name.
type MissingArg<'v> = (&'static str, &'v KeyValue<QueryArgs>, &'v String);

/// Where a variable of the query has no value, although it is an argument. What the manager puts in itself is none.
fn missing_args<'v>(
    variable: &'v Variable,
    values: &'v MetricKeys,
    asked: &ProviderQuery,
    strategy: Named,
) -> Vec<MissingArg<'v>> {
    match variable {
        Variable::VariantArg(name) => sides(strategy, values)
            .iter()
            .filter(|side| !asked.args(**side).contains_key(name))
            .map(|side| (args_key(*side), given_args(values, *side), name))
            .collect(),
        Variable::AppArg(name) if !asked.app_args.contains_key(name) => {
            vec![("appArgs", &values.app_args, name)]
        }
        Variable::AppArg(_)
        | Variable::VariantName
        | Variable::AppName
        | Variable::Namespace
        | Variable::WindowStart
        | Variable::WindowEnd => Vec::new(),
    }
}

fn report_missing_arg(
    variable: &Variable,
    key: &str,
    given: &KeyValue<QueryArgs>,
    name: &str,
    strategy: Named,
    at: At,
    findings: &mut Findings<'_>,
) {
    let known = given.value().into_iter().flat_map(|args| args.keys().map(String::as_str));
    let near = nearest(name, known);
    let message = format!("the query names {variable}, but {key} has no {name}");
    let found = findings.error(at, "unknown-variable", message);
    match near {
        Some(near) => found.fix(format!("did you mean {near}?")),
        None if strategy == Named::Previous && key == "baselineArgs" => found.fix(format!(
            "the same hours of earlier weeks are asked for: add it, as in {key}: {{{name}: value}}, or write \
             runVariation: 3%"
        )),
        None => found.fix(format!("add it, as in {key}: {{{name}: value}}")),
    }
}

const fn given_args(values: &MetricKeys, variant: Variant) -> &KeyValue<QueryArgs> {
    match variant {
        Variant::Baseline => &values.baseline_args,
        Variant::Canary => &values.canary_args,
        Variant::Primary => &values.primary_args,
    }
}

fn report_unused_args(values: &MetricKeys, variables: &[&Variable], findings: &mut Findings<'_>) {
    let variant = |name: &str| variables.iter().any(|v| matches!(v, Variable::VariantArg(n) if n == name));
    let app = |name: &str| variables.iter().any(|v| matches!(v, Variable::AppArg(n) if n == name));
    let mut report = |key: &str, given: &KeyValue<QueryArgs>, used: &dyn Fn(&str) -> bool, group: &str| {
        let KeyValue::Yes(args) = given else { return };
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
