//! The keys of a metric, each read by itself.

use std::time::Duration;

use crate::{
    analysis::{
        amount::{self, Written},
        query::{self, MAX_QUERY_BYTES, Query, QueryArgs},
        schedule::check_interval,
        spec::{ChildMetric, Deviation},
    },
    diagnostic::quoted,
    fields::{FieldEntry, Fields, Located},
    findings::Findings,
    node::{At, NodeKind},
    reading::{read_name, read_scalar, read_word},
    scalar::{ScalarFault, duration},
};

/// Most arguments of one kind.
const MAX_ARGS: usize = 64;

/// The keys of a metric. Those of a template are the same without `name` and `template`.
pub(in crate::analysis) const KEYS: [&str; 22] = [
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
pub(in crate::analysis) enum Named {
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
pub(super) enum KeyValue<T> {
    No,
    /// Given, and reported.
    Unread(At),
    Yes(Located<T>),
}

impl<T> KeyValue<T> {
    pub fn at(&self) -> Option<At> {
        match self {
            Self::No => None,
            Self::Unread(at) => Some(*at),
            Self::Yes(found) => Some(found.at),
        }
    }

    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Yes(found) => Some(&found.value),
            Self::No | Self::Unread(_) => None,
        }
    }
}

/// Every key of a metric, read by itself.
pub(in crate::analysis) struct MetricKeys {
    pub(super) provider: KeyValue<String>,
    pub(super) strategy: KeyValue<Named>,
    pub(super) query: KeyValue<Query>,
    pub(super) metric: KeyValue<ChildMetric>,
    pub(super) expected: KeyValue<(Option<f64>, Option<f64>)>,
    pub(super) deviation: KeyValue<Deviation>,
    pub(super) tolerance: KeyValue<Written>,
    pub(super) floor: KeyValue<f64>,
    pub(super) quantile: KeyValue<f64>,
    pub(super) weight: KeyValue<f64>,
    pub(super) baseline_args: KeyValue<QueryArgs>,
    pub(super) canary_args: KeyValue<QueryArgs>,
    pub(super) primary_args: KeyValue<QueryArgs>,
    pub(super) app_args: KeyValue<QueryArgs>,
    pub(super) namespace: KeyValue<String>,
    pub(super) interval: KeyValue<Duration>,
    pub(super) failure_limit: KeyValue<u32>,
    pub(super) run_variation: KeyValue<f64>,
    pub(super) json_path: KeyValue<String>,
    pub(super) dry_run: KeyValue<bool>,
}

impl MetricKeys {
    pub fn read(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Self {
        let deviations = [("LOW", Deviation::Low), ("HIGH", Deviation::High), ("EITHER", Deviation::Either)];
        let metrics = [("responseTime", ChildMetric::ResponseTime), ("errorRate", ChildMetric::ErrorRate)];
        Self {
            provider: take(fields, "provider", "children", findings, |entry, findings| {
                read_name(entry, findings).map(|name| name.value)
            }),
            strategy: take(fields, "strategy", "CANARY_BASELINE", findings, |entry, findings| {
                read_word(entry, "strategy", &STRATEGIES, findings)
            }),
            query: take(fields, "query", "up{variant=\"{{ .Variant.Name }}\"}", findings, read_query),
            metric: take(fields, "metric", "responseTime", findings, |entry, findings| {
                read_word(entry, "metric of children", &metrics, findings)
            }),
            expected: take(fields, "expected", "{max: 0.1}", findings, read_expected),
            deviation: take(fields, "deviation", "HIGH", findings, |entry, findings| {
                read_word(entry, "deviation", &deviations, findings)
            }),
            tolerance: scalar(fields, "tolerance", "5%", amount::tolerance, findings),
            floor: scalar(fields, "floor", "0.1%", amount::share, findings),
            quantile: scalar(fields, "quantile", "p99", amount::quantile, findings),
            weight: scalar(fields, "weight", "2", amount::weight, findings),
            baseline_args: take(fields, "baselineArgs", "{job: base}", findings, read_args),
            canary_args: take(fields, "canaryArgs", "{job: new}", findings, read_args),
            primary_args: take(fields, "primaryArgs", "{job: main}", findings, read_args),
            app_args: take(fields, "appArgs", "{job: sieve}", findings, read_args),
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
) -> KeyValue<T> {
    let Some(entry) = fields.filled(key, example, findings) else {
        return fields.place(key).map_or(KeyValue::No, KeyValue::Unread);
    };
    match read(entry, findings) {
        Some(value) => KeyValue::Yes(Located { value, at: entry.at }),
        None => KeyValue::Unread(entry.at),
    }
}

fn scalar<T>(
    fields: &Fields<'_>,
    key: &str,
    example: &str,
    read: fn(&str) -> Result<T, ScalarFault<T>>,
    findings: &mut Findings<'_>,
) -> KeyValue<T> {
    take(fields, key, example, findings, |entry, findings| {
        read_scalar(entry, "bad-analysis-value", read, findings)
    })
}

fn read_interval(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Duration> {
    let interval = read_scalar(entry, "bad-duration", duration, findings)?;
    check_interval(interval, entry.at, findings)
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
pub(super) fn place_of(piece: &str, whole: &str, at: At, findings: &Findings<'_>) -> At {
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
    match amount::json_path(text.value) {
        Ok(path) => Some(path),
        Err(fault) => {
            findings.error(text.at, "bad-path-expression", fault.message).fix(fault.fix);
            None
        }
    }
}

fn read_expected(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<(Option<f64>, Option<f64>)> {
    let fields = Fields::open(entry.node, "expected".to_owned(), &["min", "max"], findings)?;
    let mut bound = |key: &str| match scalar(&fields, key, "0.1", amount::bound, findings) {
        KeyValue::No => Ok(None),
        KeyValue::Unread(_) => Err(()),
        KeyValue::Yes(found) => Ok(Some(found.value)),
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

fn read_args(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<QueryArgs> {
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

/// Reports a key that says nothing beside the others.
pub(super) fn report_no_effect(key: &str, at: Option<At>, why: &str, fix: &str, findings: &mut Findings<'_>) {
    if let Some(at) = at {
        findings.error(at, "no-effect", format!("{key} has a meaning only with {why}")).fix(fix);
    }
}
