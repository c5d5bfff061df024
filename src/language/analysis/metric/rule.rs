//! When a metric is good: the range of a threshold, or what a comparison bears.

use super::{
    Around,
    keys::{KeyValue, MetricKeys, Named, report_no_effect},
};
use crate::{
    analysis::{
        amount::Written,
        spec::{
            CHILDREN, ChildMetric, Comparison, DEFAULT_FLOOR, DEFAULT_TOLERANCE, Deviation, Reference, Rule,
            Tolerance,
        },
    },
    findings::Findings,
};

pub(super) fn read_threshold(
    values: &MetricKeys,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<Rule> {
    let keys = [
        ("deviation", values.deviation.at()),
        ("tolerance", values.tolerance.at()),
        ("floor", values.floor.at()),
        ("weight", values.weight.at()),
        ("runVariation", values.run_variation.at()),
    ];
    for (key, at) in keys {
        let why = "a strategy that compares, and this one is THRESHOLD";
        report_no_effect(
            key,
            at,
            why,
            &format!("write strategy: CANARY_BASELINE, or leave {key} out"),
            findings,
        );
    }
    if !matches!(values.metric.value(), Some(ChildMetric::ResponseTime)) {
        let why = "provider: children and metric: responseTime, or a strategy that compares";
        report_no_effect("quantile", values.quantile.at(), why, "leave quantile out", findings);
    }
    let (min, max) = match &values.expected {
        KeyValue::Yes(expected) => expected.value,
        KeyValue::No => {
            findings.error(around.at, "missing-key", format!("{} lacks expected", around.what)).fix(
                "write expected: {max: 0.1}, or a strategy that compares, as in strategy: CANARY_BASELINE",
            );
            return None;
        }
        KeyValue::Unread(_) => return None,
    };
    Some(Rule::Threshold { min, max, quantile: values.quantile.value().copied() })
}

pub(super) fn read_comparison(
    values: &MetricKeys,
    strategy: Named,
    dry_run: bool,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<Comparison> {
    report_no_effect(
        "expected",
        values.expected.at(),
        "strategy: THRESHOLD, and this one compares",
        "leave expected out, or write strategy: THRESHOLD",
        findings,
    );
    if strategy != Named::Previous {
        let at = values.run_variation.at();
        report_no_effect("runVariation", at, "strategy: PREVIOUS", "leave runVariation out", findings);
    }
    if dry_run {
        let at = values.weight.at();
        report_no_effect(
            "weight",
            at,
            "a share in alpha, and a dry run has none",
            "leave weight out",
            findings,
        );
    }
    let is_rate = matches!(values.metric.value(), Some(ChildMetric::ErrorRate));
    if is_rate {
        let why = "response times, and a rate has no quantiles";
        report_no_effect("quantile", values.quantile.at(), why, "leave quantile out", findings);
    } else {
        let at = values.floor.at();
        report_no_effect(
            "floor",
            at,
            "provider: children and metric: errorRate",
            "leave floor out",
            findings,
        );
    }
    warn_of_weak_strategies(values, strategy, findings);
    let deviation = values.deviation.value().copied().unwrap_or_default();
    let tolerance = read_tolerance(values, deviation, is_rate, findings);
    check_end(values, strategy, around, findings);
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
fn warn_of_weak_strategies(values: &MetricKeys, strategy: Named, findings: &mut Findings<'_>) {
    let Some(at) = values.strategy.at() else { return };
    match (strategy, &values.run_variation) {
        (Named::Primary, _) => {
            let message = "CANARY_PRIMARY compares a fresh canary with a primary that has run for long, and is of another size";
            findings
                .warning(at, "unequal-sides", message)
                .fix("set up a baseline beside the canary, and write strategy: CANARY_BASELINE");
        }
        (Named::Previous, KeyValue::No) => {
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

fn read_tolerance(
    values: &MetricKeys,
    deviation: Deviation,
    is_rate: bool,
    findings: &mut Findings<'_>,
) -> Option<Tolerance> {
    let written = match &values.tolerance {
        KeyValue::No => return Some(Tolerance::Ratio(DEFAULT_TOLERANCE)),
        KeyValue::Unread(_) => return None,
        KeyValue::Yes(written) => written,
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
fn check_end(values: &MetricKeys, strategy: Named, around: &Around<'_>, findings: &mut Findings<'_>) {
    let series = values.provider.value().is_some_and(|provider| provider != CHILDREN);
    if around.schedule.is_open && (series || strategy == Named::Previous) {
        let message = format!("{} compares series, for which the end must be known beforehand", around.what);
        findings
            .error(around.at, "contradiction", message)
            .fix("write the duration of the analysis, as in duration: 30m");
    }
}
