//! Routers and services as the API shows them.

use std::collections::BTreeMap;

use crate::v1::time::{of_served, rfc3339};
use ab_releases::percent;
use domain::{
    children::Child,
    release::command::LastSeen,
    traffic::{self, Entry, Order, Share, Sum},
};
use model::{ChildKey, Now, traffic::HealthCheckForm};
use protocol::api::{
    CountedCalls, DrainedVariation, RouteBackend, RouteConfig, RouteHealthCheck, RoutedService,
    RoutedVariation, Router, RouterOrder, RouterOrderAnswer, Service, ServiceVariationSum, ShareRange,
    StandingState, TrafficDrift, TrafficEntry, TrafficMeasured,
};

/// What it takes to show what is in memory.
pub struct FormInputs<'a> {
    pub seen: &'a dyn LastSeen,
    pub now: Now,
}

impl FormInputs<'_> {
    pub fn router(&self, key: ChildKey, child: &Child, router: &traffic::Router) -> Router {
        let last_call = self.seen.last_call(key).map(|served_ms| of_served(served_ms, self.now));
        Router {
            id: child.id.as_str().to_owned(),
            name: child.profile.as_deref().and_then(|profile| profile.name.clone()),
            kind: router.kind.clone(),
            version: router.version.clone(),
            phase: router.phase.name().to_owned(),
            reached: router.is_reached,
            trouble: router.trouble.clone(),
            since: rfc3339(router.since.wall_ms),
            takeover_trouble: router.takeover_trouble.clone(),
            last_call,
            repairs: router.repairs,
            drifts: router.drifts,
            services: {
                let mut names: Vec<String> = router.services().map(|one| one.name.clone()).collect();
                names.sort_unstable();
                names
            },
            untold: router.untold,
        }
    }

    pub fn order(&self, router: &str, order: &Order) -> RouterOrder {
        let answer = order.answer.as_ref().map(|answer| RouterOrderAnswer {
            ok: answer.is_ok,
            text: answer.text.clone(),
            left_over: answer.left_over.clone(),
            at: rfc3339(answer.at.wall_ms),
        });
        RouterOrder {
            router: router.to_owned(),
            number: order.number,
            what: order.what.name().to_owned(),
            service: order.service.clone(),
            config: order.config.clone(),
            by: order.by.clone(),
            at: rfc3339(order.at.wall_ms),
            state: order.state(self.now.served_ms).name().to_owned(),
            answer,
        }
    }
}

/// A service, as one router leads it.
pub fn routed(router: &str, service: &traffic::Service) -> RoutedService {
    let all: u64 = service.variations.iter().filter_map(|one| one.calls).sum();
    let variation = |one: &traffic::Variation| RoutedVariation {
        name: one.name.clone(),
        wanted: percent(one.wanted),
        seen: one.seen.map(percent),
        measured: one.calls.and_then(|calls| traffic::measured(calls, all)).map(percent),
        calls: one.calls,
        errors: one.errors,
        healthy_targets: one.targets.healthy,
        total_targets: one.targets.total,
        draining: one.draining.map(|left| DrainedVariation { left }),
    };
    RoutedService {
        router: router.to_owned(),
        service: service.name.clone(),
        epoch: service.epoch,
        generation: service.generation,
        offer: service.offer.clone(),
        release: release_of(service),
        standing: service.is_standing,
        proven: service.is_proven(),
        since: rfc3339(service.since.wall_ms),
        seen_at: service.seen_ms.map(rfc3339),
        measured_ms: service.measured_ms,
        variations: service.variations.iter().map(variation).collect(),
        led: service.led.as_ref().clone(),
        stands: service.standing.as_deref().map(stands),
    }
}

/// A service over its routers.
pub fn service(name: &str, of: &[&traffic::Service]) -> Service {
    let mut releases: Vec<String> = of.iter().filter_map(|one| release_of(one)).collect();
    releases.sort_unstable();
    releases.dedup();
    Service {
        name: name.to_owned(),
        routers: u32::try_from(of.len()).unwrap_or(u32::MAX),
        unproven: of.iter().map(|one| u32::from(!one.is_proven())).sum(),
        releases,
        in_release: of.iter().any(|one| !one.is_standing),
        variations: variations(of.iter().copied()),
    }
}

fn release_of(service: &traffic::Service) -> Option<String> {
    service.release.as_ref().map(|(_, id)| id.as_str().to_owned())
}

fn stands(standing: &traffic::ProvenService) -> StandingState {
    let names = standing.led.variations.iter().map(|one| one.name.clone());
    StandingState {
        epoch: standing.epoch,
        generation: standing.generation,
        release: standing.release.as_ref().map(|id| id.as_str().to_owned()),
        since: rfc3339(standing.since.wall_ms),
        shares: names.zip(standing.shares.iter().copied().map(percent)).collect(),
        led: standing.led.as_ref().clone(),
    }
}

/// Sums over routers.
pub fn variations<'a>(of: impl IntoIterator<Item = &'a traffic::Service>) -> Vec<ServiceVariationSum> {
    let sums = traffic::sums(of);
    let all: u64 = sums.iter().map(|sum| sum.calls).sum();
    let range = |(lowest, highest)| ShareRange { lowest: percent(lowest), highest: percent(highest) };
    let shown = |sum: &Sum| ServiceVariationSum {
        name: sum.variation.clone(),
        wanted: range(sum.wanted),
        seen: sum.seen.map(range),
        measured: traffic::measured(sum.calls, all).map(percent),
        calls: sum.calls,
        errors: sum.errors,
        healthy_targets: sum.healthy,
        total_targets: sum.targets,
        draining: sum.draining,
    };
    sums.iter().map(shown).collect()
}

/// A service as the document *Progressive delivery* has it.
pub fn route(service: &traffic::Service) -> RouteConfig {
    let backends = service.variations.iter().zip(&service.led.variations);
    let backend = |(one, led): (&traffic::Variation, &model::traffic::LedVariation)| RouteBackend {
        name: one.name.clone(),
        targets: led.targets.clone(),
        weight: percent(one.wanted),
    };
    let seconds = |ms: u64| std::time::Duration::from_millis(ms).as_secs_f64();
    let health = service.led.variations.iter().find_map(|led| led.health.as_ref());
    let health = health.map(|HealthCheckForm { path, interval_ms, timeout_ms, .. }| RouteHealthCheck {
        path: path.clone().unwrap_or_default(),
        interval: seconds(*interval_ms),
        timeout: seconds(*timeout_ms),
    });
    RouteConfig {
        upstream: service.name.clone(),
        backends: backends.map(backend).collect(),
        health_check: health,
    }
}

/// An entry of the history.
pub fn entry(entry: Entry) -> TrafficEntry {
    let by = entry.by().to_owned();
    let shares = |all: &[Share]| -> BTreeMap<String, f64> {
        all.iter().map(|one| (one.variation.clone(), percent(one.hundredths))).collect()
    };
    let measured = entry.measured.map(|measured| {
        let all: u64 = measured.counts.iter().map(|(_, calls, _)| calls).sum();
        let counted = |(name, calls, errors): (String, u64, u64)| {
            (name, CountedCalls { calls, errors, share: traffic::measured(calls, all).map(percent) })
        };
        TrafficMeasured {
            for_ms: measured.for_ms,
            variations: measured.counts.into_iter().map(counted).collect(),
        }
    });
    TrafficEntry {
        timestamp: rfc3339(entry.at_ms),
        router: entry.router,
        service: Some(entry.service).filter(|name| !name.is_empty()),
        epoch: entry.epoch,
        generation: entry.generation,
        from: shares(&entry.from),
        to: shares(&entry.to),
        seen: shares(&entry.seen),
        measured,
        by,
        drift: entry.drift.map(|drift| TrafficDrift {
            wanted: drift.wanted,
            seen: drift.seen,
            then: drift.then.name().to_owned(),
        }),
    }
}
