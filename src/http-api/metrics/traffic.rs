//! Routers and services in numbers. Services are summed over their routers, so nothing grows with those.

use std::{collections::BTreeMap, time::Duration};

use super::text::{MetricKind, MetricsText};
use crate::Context;
use domain::{
    release::state::Snapshot,
    traffic::{self, Service, Sum},
};
use engine::EngineError;
use model::traffic::RouterPhase;

/// Most services that have numbers of their own, the first by name.
const MAX_SERVICES: usize = 1_000;

/// Patience with the engine: less than a scraper's.
const SCRAPE_PATIENCE: Duration = Duration::from_secs(3);

/// What all routers do together.
#[derive(Debug, Default)]
pub struct TrafficNumbers {
    by_phase: BTreeMap<RouterPhase, u32>,
    away: u32,
    drifts: u64,
    services: Vec<(String, Vec<Sum>)>,
}

/// All at the same moment.
pub async fn scan(ctx: &Context) -> Result<TrafficNumbers, EngineError> {
    ctx.engine.read_apart(SCRAPE_PATIENCE, numbers).await
}

fn numbers(state: &Snapshot) -> TrafficNumbers {
    let mut found = TrafficNumbers::default();
    let mut services: BTreeMap<&str, Vec<&Service>> = BTreeMap::new();
    for (_, router) in state.traffic.iter() {
        *found.by_phase.entry(router.phase).or_default() += 1;
        found.away += u32::from(!router.is_reached);
        found.drifts += router.drifts;
        for service in router.services() {
            services.entry(&service.name).or_default().push(service);
        }
    }
    let sums = services.into_iter().take(MAX_SERVICES);
    found.services = sums.map(|(name, of)| (name.to_owned(), traffic::sums(of))).collect();
    found
}

/// A share of a variation, in units of 0.01 %.
type ShareOf = fn(&Sum, u64) -> Option<u16>;

pub fn write(text: &mut MetricsText, found: &TrafficNumbers) {
    let mut family = text.family("routers", MetricKind::Gauge, "Routers, by what is being done with them.");
    for phase in RouterPhase::ALL {
        let count = found.by_phase.get(&phase).copied().unwrap_or_default();
        family.sample("", &[("phase", phase.name())], count);
    }
    text.single("routers_away", MetricKind::Gauge, "Routers that could not be read last.", found.away);
    let help = "Drifts of routers that are known: they did something else than they were seen to do.";
    text.single("router_drifts", MetricKind::Gauge, help, found.drifts);
    let shares: [(&str, &str, ShareOf); 4] = [
        (
            "service_wanted_ratio",
            "Share that is wanted of a variation, the lowest of all routers.",
            |sum, _| Some(sum.wanted.0),
        ),
        ("service_wanted_highest_ratio", "The same, the highest of all routers.", |sum, _| {
            Some(sum.wanted.1)
        }),
        ("service_seen_ratio", "Share that was read back, the lowest of all routers.", |sum, _| {
            Some(sum.seen?.0)
        }),
        ("service_measured_ratio", "Share of the calls that were counted, over all routers.", |sum, all| {
            traffic::measured(sum.calls, all)
        }),
    ];
    for (name, help, share) in shares {
        let mut family = text.family(name, MetricKind::Gauge, help);
        for (service, sums) in &found.services {
            let all = sums.iter().map(|sum| sum.calls).sum();
            for sum in sums {
                if let Some(share) = share(sum, all) {
                    let labels = [("service", service.as_str()), ("variation", sum.variation.as_str())];
                    family.sample("", &labels, f64::from(share) / 10_000.0);
                }
            }
        }
    }
    let help = "Targets of a variation that are healthy, where a router looks at them.";
    let mut family = text.family("service_healthy_targets", MetricKind::Gauge, help);
    for (service, sums) in &found.services {
        for sum in sums {
            let labels = [("service", service.as_str()), ("variation", sum.variation.as_str())];
            if let Some(healthy) = sum.healthy {
                family.sample("", &labels, healthy);
            }
        }
    }
}
