//! The provider `router`: what routers tell of the variations of services, summed over all that lead one.
//!
//! A query is three words: what is asked for, the service, the variation, as in `error_rate checkout B`. Which variation a side of
//! a comparison is, its args say: `error_rate checkout {{ .VariantArgs.variation }}`, with a third one for the baseline.
//!
//! | asked for | value | of |
//! |---|---|---|
//! | `requests` | calls a second | the time since the look before |
//! | `error_rate` | share of the calls that failed | the time since the look before |
//! | `p50`, `p90`, `p95`, `p99` | milliseconds, of the calls that succeeded | the time since the shares are in force |
//! | `healthy_targets` | how many are healthy, each once | now |
//! | `healthy_percent` | the same, in percent of all | now |
//!
//! Counts are those of the shares in force, and begin anew with others: no value spans a change of shares, nor one of the routers.
//! What was counted before the first look is a value if the shares came into force within what is looked at. A value comes only
//! with newer counts than the one before, and without calls there is none. Where no router looks at the targets, nobody knows how many
//! are healthy: then there is no value either.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;

use crate::{Engine, stage_measurements::Times};
use domain::{release::state::Snapshot, traffic::sums};
use language::analysis::Escape;
use metrics_providers::provider::{Ask, Point, Provider, ProviderError, Samples, Window};
use model::ChildKey;

/// How long the engine has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most series that are remembered; of more, those that were asked for longest ago are forgotten.
const MAX_SERIES: usize = 4_096;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Requests,
    ErrorRate,
    /// A quantile, in percent.
    Time(u8),
    HealthyTargets,
    HealthyPercent,
}

impl Quantity {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "requests" => Self::Requests,
            "error_rate" => Self::ErrorRate,
            "p50" => Self::Time(50),
            "p90" => Self::Time(90),
            "p95" => Self::Time(95),
            "p99" => Self::Time(99),
            "healthy_targets" => Self::HealthyTargets,
            "healthy_percent" => Self::HealthyPercent,
            _ => return None,
        })
    }
}

/// A variation over all routers, at one moment.
#[derive(Debug, Clone, Default)]
struct Sample {
    /// When the newest counts were kept, in milliseconds since 1970.
    at_ms: i64,
    /// Since when calls are counted at all of them.
    since_ms: i64,
    /// Which shares at which routers: counts of others have nothing to do with these.
    shares: Vec<(ChildKey, u64, u64)>,
    calls: u64,
    errors: u64,
    times: Times,
    /// `None`: nobody looks.
    healthy: Option<u32>,
    healthy_percent: Option<f64>,
}

/// By query: what was found when it was looked last.
type Before = HashMap<String, (u64, Sample)>;

/// Answers from what is known of routers.
#[derive(Debug)]
pub(super) struct RouterProvider {
    engine: Engine,
    before: Mutex<(u64, Before)>,
}

impl RouterProvider {
    pub fn new(engine: Engine) -> Self {
        Self { engine, before: Mutex::default() }
    }

    async fn look(&self, ask: Ask<'_>, window: Window) -> Result<Samples, ProviderError> {
        let words: Vec<&str> = ask.text.split_whitespace().collect();
        let asked = words.first().and_then(|word| Quantity::named(word));
        let (&[_, service, variation], Some(asked)) = (words.as_slice(), asked) else {
            return Err(ProviderError::Refused {
                status: 400,
                text: "a query is one of requests, error_rate, p50, p90, p95, p99, healthy_targets, healthy_percent, then a \
                       service and a variation, as in error_rate checkout B"
                    .to_owned(),
            });
        };
        let (service, variation) = (service.to_owned(), variation.to_owned());
        let found = self.engine.read_apart(PATIENCE, move |state| sample(state, &service, &variation));
        let found = found.await.map_err(|error| ProviderError::Unreachable(error.to_string()))?;
        let Some(now) = found else { return Ok(Samples::default()) };
        let before = self.remember(ask.text, &now, window);
        let value = value(asked, &now, before.as_ref(), window);
        let at_ms = now.at_ms.min(window.end_ms);
        let points = value.map(|value| Point { at_ms, value }).into_iter().collect();
        Ok(Samples { points, ..Samples::default() })
    }

    /// What was found when it was looked last, if that is of this run; what is found now takes its place if it is newer.
    fn remember(&self, query: &str, now: &Sample, window: Window) -> Option<Sample> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let (looks, series) = &mut *before;
        *looks += 1;
        let known = series.get(query).map(|(_, sample)| sample.clone());
        if known.as_ref().is_none_or(|known| known.at_ms < now.at_ms) {
            series.insert(query.to_owned(), (*looks, now.clone()));
        }
        if series.len() > MAX_SERIES
            && let Some(oldest) =
                series.iter().min_by_key(|(_, (look, _))| *look).map(|(query, _)| query.clone())
        {
            series.remove(&oldest);
        }
        known.filter(|known| known.at_ms >= window.start_ms)
    }
}

impl Provider for RouterProvider {
    fn escape(&self) -> Escape {
        Escape::PromQl
    }

    fn fetch<'a>(&'a self, ask: Ask<'a>, window: Window) -> BoxFuture<'a, Result<Samples, ProviderError>> {
        Box::pin(self.look(ask, window))
    }
}

/// What is known of a variation; none: no router leads it.
fn sample(state: &Snapshot, service: &str, variation: &str) -> Option<Sample> {
    let mut found = Sample { since_ms: i64::MIN, ..Sample::default() };
    let of: Vec<_> = state.traffic.of_service(service).collect();
    let is_meant = |name: &String| name == variation;
    for (key, router, service) in &of {
        let Some(one) = service.variations.iter().find(|one| is_meant(&one.name)) else { continue };
        let at_ms = router.measured.wall_ms.max(service.since.wall_ms);
        let measured_ms = i64::try_from(service.measured_ms.unwrap_or_default()).unwrap_or(i64::MAX);
        found.at_ms = found.at_ms.max(at_ms);
        found.since_ms = found.since_ms.max(at_ms.saturating_sub(measured_ms));
        found.shares.push((*key, service.epoch, service.generation));
        found.calls = found.calls.saturating_add(one.calls.unwrap_or_default());
        found.errors = found.errors.saturating_add(one.errors.unwrap_or_default());
        if let Some(times) = &one.histogram {
            found.times.add(times);
        }
    }
    let sums = sums(of.iter().map(|(_, _, service)| service.as_ref()));
    let sum = sums.into_iter().find(|sum| is_meant(&sum.variation))?;
    (found.healthy, found.healthy_percent) = (sum.healthy, sum.healthy_percent());
    Some(found)
}

/// The value now; none: there is nothing newer than before, or nothing was called.
fn value(asked: Quantity, now: &Sample, before: Option<&Sample>, window: Window) -> Option<f64> {
    match asked {
        Quantity::HealthyTargets => return now.healthy.map(f64::from),
        Quantity::HealthyPercent => return now.healthy_percent,
        Quantity::Requests | Quantity::ErrorRate | Quantity::Time(_) => {}
    }
    if before.is_some_and(|before| before.at_ms >= now.at_ms) {
        return None;
    }
    let is_going_on = |before: &&Sample| {
        before.shares == now.shares && before.calls <= now.calls && before.errors <= now.errors
    };
    let (since_ms, calls, errors) = match before.filter(is_going_on) {
        Some(before) => (before.at_ms, now.calls - before.calls, now.errors - before.errors),
        // Since the shares are in force, if that is within what is looked at.
        None if now.since_ms >= window.start_ms => (now.since_ms, now.calls, now.errors),
        None => return None,
    };
    if calls == 0 && asked != Quantity::Requests {
        return None;
    }
    match asked {
        Quantity::Requests => {
            let ms = u64::try_from(now.at_ms.saturating_sub(since_ms)).ok().filter(|ms| *ms > 0)?;
            Some(calls as f64 * 1_000.0 / ms as f64)
        }
        Quantity::ErrorRate => Some(errors as f64 / calls as f64),
        Quantity::Time(percent) => now.times.quantile(f64::from(percent) / 100.0),
        Quantity::HealthyTargets | Quantity::HealthyPercent => None,
    }
}
