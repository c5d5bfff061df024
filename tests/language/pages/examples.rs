//! What the pages say of defaults and examples is tried on strategies.

use std::{collections::BTreeSet, time::Duration};

use language::{Amount, Diagnostic, Severity, Strategy, check, schema::StrategyForm};
use serde_json::Value;

use super::{
    page::{PAGES, Reader, alternatives, keys},
    schema_value,
};

/// Together they have every block of the language.
const SAMPLES: [&str; 3] = [
    r#"id: functions
name: every block of functions
functions:
  - name: sieve
    agents: {labels: {env: prod}}
    base_version: {path: fns/sample_f1, env: nodejs}
    new_version: {path: fns/sample_f2, env: nodejs}
target: {labels: {tier: edge}}
rollout:
  order: waves
  waves: [1, 100%]
  approval: {stages: [Canary]}
  analysis:
    interval: 1m
    metrics: [{name: errors anywhere, provider: children, metric: errorRate, strategy: CANARY_BASELINE}]
stages:
  - name: Canary
    type: WaitForSignal
    func_name: sieve
    variants: [{name: base_version, trafficPercentage: 90}, {name: new_version, trafficPercentage: 10}]
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}, {name: responseTime, threshold: "<=250"}]
    end_conditions: [{name: minDuration, threshold: 10s}, {name: minCalls, threshold: "100"}]
    analysis:
      duration: 2h
      interval: 5m
      inconclusive: {calls: 20000}
      metrics:
        - {name: times, provider: children, metric: responseTime, strategy: CANARY_BASELINE}
        - {name: errors, provider: children, metric: errorRate, strategy: CANARY_BASELINE}
        - {name: load, provider: prom, query: 'load{version="{{ .Variant.Name }}"}', expected: {max: 0.8}}
        - {template: {name: error-rate}}
    end_action: {onSuccess: rollout}
rollback: {action: {function: base_version}}
analysis_templates:
  error-rate: {provider: prom, query: 'errors{version="{{ .Variant.Name }}"}', expected: {max: 0.1}}
"#,
    r#"id: services
name: every block of services
services:
  - name: checkout
    routers: {labels: {env: prod}}
    ports: [{port: 8080}]
    header: {name: X-Variation, values: {B: B}}
    variations:
      - {name: A, targets: ["127.0.0.1:9101"]}
      - {name: B, run: {path: checkout/v2, limits: {cpu: 500m}}, health: {path: /ready}}
strategy:
  stages: [{traffic: 10, duration: 5m}, {traffic: 100, duration: 0s}]
"#,
    r#"id: shares
name: stages of a service
services:
  - name: checkout
    ports: [{port: 8080}]
    variations: [{name: A, targets: ["127.0.0.1:9101"]}, {name: B, targets: ["127.0.0.1:9111"]}]
stages:
  - name: a little
    type: Traffic
    shares: {A: 90, B: 10}
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    end_action: {onSuccess: rollout}
"#,
];

fn samples() -> Vec<Value> {
    SAMPLES.iter().map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

/// JSON is YAML.
fn text_of(strategy: &Value) -> String {
    serde_json::to_string_pretty(strategy).unwrap()
}

/// Where blocks stand in a strategy: the form of each and its JSON pointer.
fn blocks<'s>(schema: &'s Value, strategy: &Value) -> Vec<(&'s str, String)> {
    fn walk<'s>(
        schema: &'s Value,
        form: &'s Value,
        value: &Value,
        at: &str,
        found: &mut Vec<(&'s str, String)>,
    ) {
        if let Some(name) = form["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
            let form = &schema["$defs"][name];
            if form["properties"].is_object() && value.is_object() {
                found.push((name, at.to_owned()));
            }
            return walk(schema, form, value, at, found);
        }
        for one in alternatives(form).into_iter().flatten() {
            walk(schema, one, value, at, found);
        }
        for (key, inner) in value.as_object().into_iter().flatten() {
            let form = form["properties"].get(key).or(form.get("additionalProperties"));
            if let Some(form) = form {
                walk(schema, form, inner, &format!("{at}/{key}"), found);
            }
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            walk(schema, &form["items"], item, &format!("{at}/{index}"), found);
        }
    }
    let mut found = vec![("", String::new())];
    walk(schema, schema, strategy, "", &mut found);
    found
}

/// The strategy with a value at a key of one of its blocks.
fn with(strategy: &Value, block: &str, key: &str, value: Value) -> Value {
    let mut changed = strategy.clone();
    changed.pointer_mut(block).unwrap()[key] = value;
    changed
}

/// The values of which a property says something, by form and key.
fn all(schema: &Value, says: impl Fn(&Value) -> bool) -> BTreeSet<(&str, &str)> {
    let reader = Reader::new(schema, "");
    let forms = PAGES.iter().flat_map(|page| page.blocks).map(|block| block.form);
    forms
        .flat_map(|form| keys(reader.form(form)).map(move |key| (form, key)))
        .filter(|(form, key)| says(&reader.form(form)["properties"][*key]))
        .collect()
}

/// A strategy, with what its reader puts in only where it is asked for.
fn meant(mut strategy: Strategy) -> (f64, Strategy) {
    let alpha = strategy.alpha();
    if let Some(rollout) = &mut strategy.rollout {
        rollout.silent_after = Some(Duration::from_millis(rollout.silent_after_ms()));
        rollout.min_succeeded = Some(Amount::Count(rollout.must_succeed(1_000, 1_000)));
    }
    let whole = strategy.rollout.iter_mut().filter_map(|rollout| rollout.analysis.as_mut());
    for analysis in strategy.stages.iter_mut().filter_map(|stage| stage.analysis.as_mut()).chain(whole) {
        analysis.alpha = None;
    }
    (alpha, strategy)
}

#[test]
fn an_absent_key_means_its_default() {
    let schema = schema_value();
    let wanted = all(&schema, |value| value.get("default").is_some());
    let mut tried = BTreeSet::new();
    for sample in samples() {
        let without = check(&text_of(&sample));
        let without = meant(without.strategy.unwrap_or_else(|| panic!("{:#?}", without.diagnostics)));
        for (form, at) in blocks(&schema, &sample) {
            for &(form, key) in wanted.iter().filter(|(other, _)| *other == form) {
                if sample.pointer(&at).unwrap().get(key).is_some() {
                    continue;
                }
                let default = Reader::new(&schema, "").form(form)["properties"][key]["default"].clone();
                // Some keys mean something only next to others, which not every sample has.
                if let Some(strategy) = check(&text_of(&with(&sample, &at, key, default.clone()))).strategy {
                    assert_eq!(meant(strategy), without, "the default of {at}/{key} is not {default}");
                    tried.insert((form, key));
                }
            }
        }
    }
    assert_eq!(tried, wanted);
}

/// Whether a fault is about a value itself, and not about what stands next to it.
fn is_of_value(fault: &Diagnostic) -> bool {
    let is_its_own = ["wrong-type", "unknown-key", "unknown-value", "syntax"].contains(&fault.code);
    fault.severity == Severity::Error && (is_its_own || fault.code.starts_with("bad-"))
}

#[test]
fn each_example_can_be_written() {
    let schema = schema_value();
    let reader = Reader::new(&schema, "");
    let wanted = all(&schema, |value| reader.example(value).is_some());
    let (mut tried, mut faults) = (BTreeSet::new(), Vec::new());
    for sample in samples() {
        for (form, at) in blocks(&schema, &sample) {
            for &(form, key) in wanted.iter().filter(|(other, _)| *other == form) {
                let example = reader.example(&reader.form(form)["properties"][key]).unwrap();
                let text = text_of(&with(&sample, &at, key, example));
                let fitting = serde_saphyr::from_str::<StrategyForm>(&text);
                let found: Vec<Diagnostic> =
                    check(&text).diagnostics.into_iter().filter(is_of_value).collect();
                if fitting.is_ok() && found.is_empty() {
                    tried.insert((form, key));
                } else {
                    faults.push((at.clone(), key, fitting.err(), found));
                }
            }
        }
    }
    assert_eq!(tried, wanted, "{faults:#?}");
}
