//! One metric: its keys read, then the rules between them.
//!
//! The two steps are apart because a named template is checked when it is read, where half of the keys may be missing.

mod keys;
mod rule;
mod source;

pub(super) use self::keys::{KEYS, MetricKeys};
use self::{
    keys::{KeyValue, Named},
    rule::{read_comparison, read_threshold},
    source::{pair_of, read_source},
};
use super::{
    schedule::{AnalysisPlace, Schedule, report_never_passed},
    spec::{Metric, MetricSource, Rule},
};
use crate::{findings::Findings, node::At};

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
pub(super) fn read_metric(
    name: Option<String>,
    values: &MetricKeys,
    around: &Around<'_>,
    findings: &mut Findings<'_>,
) -> Option<Metric> {
    let strategy = match &values.strategy {
        KeyValue::No => Some(Named::Threshold),
        given => given.value().copied(),
    };
    let dry_run = values.dry_run.value().copied().unwrap_or(around.dry_run);
    let source = read_source(values, strategy, around, findings);
    let rule = strategy.and_then(|strategy| match strategy {
        Named::Threshold => read_threshold(values, around, findings),
        Named::Previous | Named::Baseline | Named::Primary => {
            read_comparison(values, strategy, dry_run, around, findings).map(Rule::Compare)
        }
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
        report_never_passed("failureLimit", failure_limit, looks, at, findings);
    }
    let interval = around.schedule.unlike(own);
    let pair = strategy.and_then(|strategy| pair_of(values, strategy));
    let pair = pair.filter(|_| matches!(source, Some(MetricSource::Children(_))));
    Some(Metric { name: name?, source: source?, rule: rule?, pair, failure_limit, dry_run, interval })
}
