//! What the manager is told of the router, as it is now.

use model::traffic::{DriftThen, LedForm, RouterPhase, TargetCount, WHOLE};
use protocol::{
    HistogramForm,
    traffic::{
        DriftForm, MAX_TOLD_OPEN_PORTS, MAX_TOLD_SERVICES, MAX_TOLD_TEXT_BYTES, RouterReport, ServiceReport,
        VariationReport,
    },
};
use router::controller::{DriftAction, Phase};
use traffic::{
    desired::{Service, Target, Variation},
    observed::Difference,
};

use crate::{
    data_plane::{DataPlane, Drift, View},
    measure::Side,
    state_machine::{LedService, ManagedService, StateMachine},
};

/// What is told but for what was told already.
#[derive(Debug, Clone)]
pub struct Report {
    /// What the manager calls this agent.
    pub id: String,
    pub router: RouterReport,
    pub services: Vec<ServiceReport>,
    /// How many services there are beside those.
    pub untold: u32,
    pub drifts: Vec<Drift>,
}

impl Report {
    /// None before the manager has given this agent a name.
    pub fn of(core: &StateMachine, front: &dyn DataPlane) -> Option<Self> {
        let state = core.state();
        let (id, view) = (state.id.clone()?, front.view());
        let all = core.services();
        let services: Vec<ServiceReport> =
            all.take(MAX_TOLD_SERVICES).filter_map(|led| service(&led, core, front, &view)).collect();
        let untold = state.services.len().saturating_sub(MAX_TOLD_SERVICES) as u32;
        let trouble = view.trouble.clone().or_else(|| core.proxy_trouble().map(str::to_owned));
        let router = RouterReport {
            kind: front.kind().name().to_owned(),
            version: None,
            phase: phase(view.phase),
            trouble: trouble.map(|text| line(&text)),
            reached: view.is_reached,
            repairs: u32::try_from(view.repairs).unwrap_or(u32::MAX),
            ports: front.ports().filter(|open| open.len() <= MAX_TOLD_OPEN_PORTS),
            takeover_trouble: front.takeover_trouble().map(|text| line(&text)),
        };
        Some(Self { id, router, services, untold, drifts: view.drifts })
    }

    /// Whether there is more to say than that time has passed and calls were made.
    pub fn is_news(&self, before: &Self) -> bool {
        let newest = |of: &Self| of.drifts.last().map(|drift| drift.number);
        let still = |service: &ServiceReport| {
            let still = |one: &VariationReport| VariationReport {
                calls: None,
                errors: None,
                histogram: None,
                ..one.clone()
            };
            let variations = service.variations.iter().map(still).collect();
            ServiceReport { seen_ago_ms: None, measured_ms: None, variations, ..service.clone() }
        };
        self.id != before.id
            || self.router != before.router
            || newest(self) != newest(before)
            || !self.services.iter().map(still).eq(before.services.iter().map(still))
    }

    /// Whether calls are counted, so that there is more to say every few seconds.
    pub fn counts(&self) -> bool {
        self.services.iter().any(|service| service.measured_ms.is_some())
    }
}

fn service(
    led: &LedService,
    core: &StateMachine,
    front: &dyn DataPlane,
    view: &View,
) -> Option<ServiceReport> {
    let ManagedService { service: told, .. } = led.told(front.abilities().hashes).ok()?;
    let number = core.decided_last();
    let testing =
        core.state().work.as_ref().and_then(|work| work.walk()).and_then(|walk| walk.testing.as_ref());
    let name = told.name.as_str();
    let testing = testing.filter(|of| of.counts.service() == name && of.counts.split() == led.split);
    let counts = testing.map(|testing| &testing.counts).filter(|counts| counts.is_counted());
    let variations = told.variants().map(|variant| {
        let (of, total) = (variant.variation, targets(view, name, variant.variation));
        let drain = view.draining.iter().find(|one| one.service == name && one.variation == of.name.as_str());
        let side = counts.and_then(|counts| counts.of_named(of.name.as_str()));
        VariationReport {
            name: of.name.to_string(),
            wanted: variant.hundredths.min(WHOLE),
            seen: view.share(name, of.name.as_str()),
            targets: TargetCount {
                healthy: view.healthy(name, of.name.as_str()).map(|healthy| healthy.min(total)),
                total,
            },
            draining: drain.map(|one| one.left.map_or(-1, |left| i64::try_from(left).unwrap_or(i64::MAX))),
            calls: side.map(|side| side.calls),
            errors: side.map(|side| side.errors),
            histogram: side.and_then(Side::values).map(|values| HistogramForm::Sketch(values.to_histogram())),
        }
    });
    Some(ServiceReport {
        name: name.to_owned(),
        epoch: number.epoch,
        generation: number.generation,
        offer: (!led.offer.is_empty()).then(|| led.offer.clone()),
        standing: !led.is_tried,
        seen_ago_ms: view.seen_at.map(|at| at.elapsed().as_millis() as u64),
        measured_ms: testing.filter(|_| counts.is_some()).map(|testing| testing.elapsed_ms),
        variations: variations.collect(),
        led: led_as(&told, view, front),
    })
}

/// All of a service, with the ports at which its router listens where others have those that are called, and whether these take calls, too.
fn led_as(told: &Service, view: &View, front: &dyn DataPlane) -> LedForm {
    let mut led = LedForm::from(told);
    let wanted = view.wanted.as_ref().and_then(|wanted| wanted.service(told.name.as_str()));
    let shared = front.shared_ports();
    for listen in &mut led.ports {
        let placed = wanted.and_then(|of| of.listens.iter().find(|one| one.socket() == listen.socket()));
        listen.at = placed.and_then(|placed| placed.at);
        listen.shared = !listen.protocol.is_udp() && shared.contains(&listen.port);
    }
    led
}

/// How many targets a variation has, with addresses in the place of names.
fn targets(view: &View, service: &str, variation: &Variation) -> u32 {
    let wanted = view.wanted.as_ref().and_then(|wanted| wanted.service(service));
    let found = wanted.and_then(|service| service.variations.iter().find(|one| one.name == variation.name));
    found.unwrap_or(variation).targets.len() as u32
}

/// In the words of the manager.
pub(super) fn phase(phase: Phase) -> RouterPhase {
    match phase {
        Phase::Idle => RouterPhase::Idle,
        Phase::Waiting => RouterPhase::Waiting,
        Phase::Telling => RouterPhase::Telling,
        Phase::InForce => RouterPhase::InForce,
        Phase::Paused => RouterPhase::Paused,
        Phase::Accepted => RouterPhase::Accepted,
        Phase::Superseded => RouterPhase::Superseded,
    }
}

/// A drift as it is told.
pub fn drift(drift: &Drift) -> DriftForm {
    let both: Vec<_> = drift.differences.first.iter().map(both).collect();
    let service = both.first().and_then(|(service, ..)| service.clone());
    let is_of_one = both.iter().all(|(of, ..)| *of == service);
    let joined = |texts: Vec<&str>| line(&texts.join("; "));
    DriftForm {
        number: drift.number,
        ago_ms: drift.at.elapsed().as_millis() as u64,
        service: service.filter(|_| is_of_one),
        wanted: joined(both.iter().map(|(_, wanted, _)| wanted.as_str()).collect()),
        seen: joined(both.iter().map(|(.., seen)| seen.as_str()).collect()),
        then: match drift.then {
            DriftAction::Repaired => DriftThen::Repaired,
            DriftAction::Paused => DriftThen::Paused,
            DriftAction::PausedAfterRepairs => DriftThen::PausedAfterRepairs,
            DriftAction::Accepted => DriftThen::Accepted,
        },
    }
}

/// The service that differs, what is wanted of it, and what was seen.
fn both(difference: &Difference) -> (Option<String>, String, String) {
    let percents = |shares: &[u16]| {
        let each = shares.iter().map(|share| format!("{} %", f64::from(*share) / 100.0));
        each.collect::<Vec<_>>().join(" / ")
    };
    let list = |all: &[Target]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match difference {
        Difference::Number { wanted, seen } => {
            let seen = seen.map_or_else(|| "nothing of ours".to_owned(), |seen| format!("state {seen}"));
            (None, format!("state {wanted}"), seen)
        }
        Difference::Missing { service } => {
            (Some(service.clone()), "there".to_owned(), "not there".to_owned())
        }
        Difference::LeftOver { what } => (None, format!("no {what}"), what.clone()),
        Difference::Variations { service, wanted, seen } => {
            (Some(service.clone()), wanted.join(", "), seen.join(", "))
        }
        Difference::Shares { service, wanted, seen } => {
            (Some(service.clone()), percents(wanted), percents(seen))
        }
        Difference::Buckets { service, differ } => (
            Some(service.clone()),
            "its buckets".to_owned(),
            format!("{differ} of 10000 buckets are another's"),
        ),
        Difference::Targets { service, variation, wanted, seen } => (
            Some(service.clone()),
            format!("{variation}: {}", list(wanted)),
            format!("{variation}: {}", list(seen)),
        ),
        Difference::TakenOver { wanted, seen } => (None, wanted.clone(), seen.clone()),
    }
}

/// One line, no longer than may be told.
fn line(text: &str) -> String {
    let mut line: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    line.truncate(line.floor_char_boundary(MAX_TOLD_TEXT_BYTES));
    line
}
