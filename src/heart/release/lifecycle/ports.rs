//! A release has no port that one of its routers can't give it. What is known of that here is refused at once, and not by each router.

use std::collections::BTreeMap;

use crate::{
    plan::Plan,
    release::{
        command::{PortTaken, Refusal},
        state::State,
    },
    traffic::{self, Router},
};
use language::{CallTarget, Protocol, Service, Strategy, told_protocol};
use model::{
    ReleaseId, tenant,
    traffic::{OpenPorts, TransportProtocol},
};

/// A port, and whether it is one of UDP.
type Port = (u16, bool);

/// What is wrong with a port of a service, in words.
struct Taken<'s> {
    service: &'s str,
    port: u16,
    why: String,
}

/// Refuses a release by which two services of a router would be at one port, calls would go round, or a service would be at a port that
/// its router says it doesn't have. `plan`: who takes part, asked for only where a router is known.
pub(super) fn check<'p>(
    state: &State,
    strategy: &Strategy,
    plan: impl FnOnce() -> &'p Plan,
) -> Result<(), Refusal> {
    if strategy.services.is_empty() || state.traffic.is_empty() {
        return Ok(());
    }
    let plan = plan();
    for child in plan.leaders() {
        let Some(router) = state.traffic.get(child) else { continue };
        let member = plan.members.binary_search(&child).unwrap_or_default();
        let part = plan.parts.get(member).copied().unwrap_or(u64::MAX);
        let services = (strategy.functions.len()..).zip(&strategy.services);
        let led: Vec<&Service> =
            services.filter(|(at, _)| part >> at & 1 == 1).map(|(_, service)| service).collect();
        if let Some(Taken { service, port, why }) = taken(&led, router, &strategy.id) {
            let service = service.to_owned();
            let router = state.children.get(child).map(|child| child.id.as_str().to_owned());
            let router = router.unwrap_or_default();
            return Err(Refusal::PortTaken(Box::new(PortTaken { service, router, port, why })));
        }
    }
    Ok(())
}

/// The first port of services that a router can't give them, beside all else that it leads.
fn taken<'s>(led: &[&'s Service], router: &Router, own: &ReleaseId) -> Option<Taken<'s>> {
    let is_led = |service: &traffic::Service| led.iter().any(|led| led.name() == service.name);
    let others: Vec<_> = router.services().filter(|service| !is_led(service)).collect();
    let mut holders: BTreeMap<Port, String> = BTreeMap::new();
    for other in &others {
        let ports = other.led.ports.iter();
        holders.extend(ports.map(|at| ((at.port, at.protocol == TransportProtocol::Udp), named(other, own))));
    }
    let mut new: BTreeMap<Port, &'s str> = BTreeMap::new();
    for service in led.iter().copied() {
        for listen in &service.ports {
            let key = (listen.port, listen.protocol.is_udp());
            let taken = |why| Some(Taken { service: service.name(), port: listen.port, why });
            if let Some(open) = &router.ports
                && !open.iter().any(|open| open.take(listen.port, told_protocol(listen.protocol)))
            {
                return taken(format!(
                    "it takes {} at {}",
                    listen.protocol.name(),
                    words(open, listen.protocol)
                ));
            }
            if let Some(holder) = holders.insert(key, format!("service {}", service.name())) {
                return taken(format!("{holder} has it"));
            }
            new.insert(key, service.name());
        }
    }
    for service in led.iter().copied() {
        for target in service.variations.iter().flat_map(|one| &one.targets) {
            let key = (target.port, service.protocol().is_udp());
            if let Some(holder) = holders.get(&key).filter(|_| target.host.is_this_machine()) {
                let why = format!("{holder} has it, and {target} is a target: calls would go round");
                return Some(Taken { service: service.name(), port: target.port, why });
            }
        }
    }
    for other in &others {
        let is_udp = other.led.ports.iter().any(|at| at.protocol == TransportProtocol::Udp);
        let targets = other.led.variations.iter().flat_map(|one| &one.targets);
        for target in targets.filter_map(|target| target.parse::<CallTarget>().ok()) {
            let found = new.get(&(target.port, is_udp)).filter(|_| target.host.is_this_machine());
            if let Some(service) = found {
                let why = format!("it is the target {target} of {}: calls would go round", named(other, own));
                return Some(Taken { service, port: target.port, why });
            }
        }
    }
    None
}

/// As it is named to whoever submits a release.
fn named(service: &traffic::Service, own: &ReleaseId) -> String {
    let release = service.release.as_ref().map(|(_, id)| tenant::named(own.tenant(), id));
    match release {
        Some(tenant::ANOTHERS) => format!("{} service", tenant::ANOTHERS),
        None if own.tenant().is_some() => "another service".to_owned(),
        Some(_) | None => format!("service {}", service.name),
    }
}

fn words(open: &[OpenPorts], protocol: Protocol) -> String {
    let open = open.iter().filter(|open| open.are_for(told_protocol(protocol)));
    let open: Vec<String> = open.map(ToString::to_string).collect();
    if open.is_empty() { "no port".to_owned() } else { open.join(", ") }
}
