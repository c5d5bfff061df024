use std::collections::BTreeMap;

use super::{BY_HEADER, MARK, Provider};
use crate::measure::{CounterKey, Counters, Counts};

/// Calls of a service that have ended, by status, method and protocol.
const CALLS: &str = "traefik_service_requests_total{";

/// When Traefik began, in seconds since 1970.
const BEGAN: &str = "process_start_time_seconds ";

/// What its metrics say of calls of ours, in the text format of Prometheus.
#[must_use]
pub fn counters(metrics: &str, provider: Provider) -> Counters {
    let (mut of, mut life) = (BTreeMap::<CounterKey, Counts>::new(), 0);
    for line in metrics.lines() {
        if let Some(began) = line.strip_prefix(BEGAN).and_then(|began| began.parse().ok()) {
            life = f64::to_bits(began);
        }
        if let Some((key, status, calls)) = line.strip_prefix(CALLS).and_then(|line| row(line, provider)) {
            of.entry(key).or_default().note(status, calls);
        }
    }
    Counters::Counted { of, is_whole: true, life }
}

/// Whose calls a row is of, their status and how many there were. None: not of ours.
fn row(row: &str, provider: Provider) -> Option<(CounterKey, u16, u64)> {
    let (labels, calls) = row.rsplit_once("} ")?;
    let label = |name: &str| {
        let (_, rest) = labels.split_once(name)?;
        Some(rest.strip_prefix("=\"")?.split_once('"')?.0)
    };
    let own = label("service")?.strip_prefix(MARK)?.strip_suffix(provider.suffix())?;
    let (service, variation) = own.split_once(':')?;
    let asked = variation.strip_suffix(BY_HEADER);
    let key = CounterKey {
        service: service.to_owned(),
        variation: asked.unwrap_or(variation).to_owned(),
        by_header: asked.is_some(),
    };
    // A counter is written as a number with a point once it is large.
    let calls = calls.parse::<f64>().ok().filter(|calls| *calls >= 0.0)?;
    Some((key, label("code")?.parse().ok()?, calls as u64))
}
