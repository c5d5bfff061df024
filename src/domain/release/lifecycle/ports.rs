//! A release has no port that one of its routers can't give it. What is known of that here is refused at once, and not by each router.

use std::collections::BTreeMap;

use crate::{
    plan::{self, Plan, Takeover},
    release::{
        command::{PortTaken, Refusal},
        state::{Release, ReleaseState, Snapshot, State},
    },
    traffic::{self, Router},
};
use language::{CallTarget, Protocol, Service, Strategy};
use model::{
    ChildKey, ReleaseId, tenant,
    traffic::{Listen, OpenPorts, Socket},
};

/// What is wrong with a port of a service, in words.
struct Taken<'s> {
    service: &'s str,
    port: u16,
    why: String,
}

/// Refuses a release by which two services of a router would be at one port, now or once what waits for its turn has begun, calls would
/// go round, or a service would be at a port that its router says it doesn't have. `plan`: who takes part, asked for only where a router is known.
pub(super) fn check<'p>(
    state: &State,
    strategy: &Strategy,
    plan: impl FnOnce() -> &'p Plan,
) -> Result<(), Refusal> {
    if strategy.services.is_empty() || state.traffic.is_empty() {
        return Ok(());
    }
    let plan = plan();
    let queued = queued(state, strategy);
    for child in plan.leaders() {
        let Some(router) = state.traffic.get(child) else { continue };
        let led = led_by(child, strategy, plan);
        let found =
            taken(&led, router, &strategy.id).or_else(|| taken_by(&queued, child, &led, &strategy.id));
        if let Some(Taken { service, port, why }) = found {
            let service = service.to_owned();
            let router = state.children.get(child).map(|child| child.id.as_str().to_owned());
            let router = router.unwrap_or_default();
            return Err(Refusal::PortTaken(Box::new(PortTaken { service, router, port, why })));
        }
    }
    Ok(())
}

/// Ports to which calls are taken over from other programs, by the place of their service, and how many routers of a plan do so in which
/// way.
#[must_use]
pub fn taken_over(
    state: &Snapshot,
    strategy: &Strategy,
    plan: &Plan,
) -> BTreeMap<(usize, u16, Takeover), u32> {
    let mut found = BTreeMap::new();
    for (router, at, listen) in asked_of(state, strategy, plan) {
        let way = strategy.services.get(at).and_then(|service| taken_over_by(router, listen, service));
        if let Some(way) = way {
            *found.entry((at, listen.port, way)).or_default() += 1;
        }
    }
    found
}

/// Ports of which another program still takes some of the calls, past a router of a plan, by the place of their service, and how many
/// routers say so.
#[must_use]
pub fn shared_ports(state: &Snapshot, strategy: &Strategy, plan: &Plan) -> BTreeMap<(usize, u16), u32> {
    let mut found = BTreeMap::new();
    for (router, at, listen) in asked_of(state, strategy, plan) {
        let mut there = router.services().flat_map(|service| &service.led.ports);
        if there.any(|other| other.shared && other.socket() == listen.socket()) {
            *found.entry((at, listen.port)).or_default() += 1;
        }
    }
    found
}

/// Ports that routers of a plan say that they don't have, by the place of their service, how many these are, and what the first of them
/// has.
#[must_use]
pub fn without_port(
    state: &Snapshot,
    strategy: &Strategy,
    plan: &Plan,
) -> BTreeMap<(usize, u16), (u32, String)> {
    let mut found = BTreeMap::new();
    for (router, at, listen) in asked_of(state, strategy, plan) {
        if let Some(has) = lacks(router, listen) {
            found.entry((at, listen.port)).or_insert((0, has)).0 += 1;
        }
    }
    found
}

/// What each router of a plan is to take for services, each by its place.
fn asked_of<'a>(
    state: &'a Snapshot,
    strategy: &'a Strategy,
    plan: &Plan,
) -> Vec<(&'a Router, usize, &'a Listen)> {
    let mut asked = Vec::new();
    for child in plan.leaders() {
        let Some(router) = state.traffic.get(child) else { continue };
        let led = led_by(child, strategy, plan);
        for (at, service) in strategy.services.iter().enumerate() {
            if led.iter().any(|led| led.name() == service.name()) {
                asked.extend(service.ports.iter().map(|listen| (&**router, at, listen)));
            }
        }
    }
    asked
}

/// What a router takes instead of what a service is to take; none: it has that, or doesn't say.
fn lacks(router: &Router, listen: &Listen) -> Option<String> {
    let open = router.ports.as_ref()?;
    let has_it = open.iter().any(|open| open.take(listen));
    (!has_it).then(|| words(open, router.takeover_trouble.as_deref(), listen))
}

/// How a router has a port that it has only by taking over what is called there; none: it has it by itself, or not at all. By a socket, if
/// that is possible: where a target is that port, its calls would come back.
fn taken_over_by(router: &Router, listen: &Listen, service: &Service) -> Option<Takeover> {
    let fitting: Vec<&OpenPorts> = router.ports.iter().flatten().filter(|open| open.take(listen)).collect();
    if fitting.is_empty() || fitting.iter().any(|open| !open.takes_over) {
        return None;
    }
    let targets = service.variations.iter().flat_map(|one| &one.targets);
    let mut there = targets.filter(|target| target.port == listen.port);
    let goes_round = there.any(|target| target.host.is_this_machine());
    let is_by_socket = fitting.iter().any(|open| open.by_socket);
    let is_by_rules = fitting.iter().any(|open| !open.by_socket);
    Some(if is_by_socket && (!goes_round || !is_by_rules) { Takeover::Socket } else { Takeover::Nftables })
}

/// The services of a release that a child leads.
fn led_by<'s>(child: ChildKey, strategy: &'s Strategy, plan: &Plan) -> Vec<&'s Service> {
    let Ok(member) = plan.members.binary_search(&child) else { return Vec::new() };
    let part = plan.parts.get(member).copied().unwrap_or(u64::MAX);
    let services = (strategy.functions.len()..).zip(&strategy.services);
    services.filter(|(at, _)| part >> at & 1 == 1).map(|(_, service)| service).collect()
}

/// Services of another release that are to have a port of one of these, which is another service: who, which port here, and whose it is.
fn meeting<'o, 's>(
    others: impl IntoIterator<Item = &'o Service>,
    led: &[&'s Service],
) -> Option<(&'o Service, u16, &'s Service)> {
    let is_led = |name: &str| led.iter().any(|led| led.name() == name);
    let others = others.into_iter().filter(|other| !is_led(other.name()));
    others.flat_map(|other| other.ports.iter().map(move |at| (other, at))).find_map(|(other, at)| {
        led.iter().find_map(|own| {
            let met = own.ports.iter().find(|own| own.meets(at))?;
            Some((other, met.port, *own))
        })
    })
}

/// The releases that wait for their turn and are to have another service at a port of this one's, with who would take part in each. One
/// that nobody has started holds no other up.
fn queued<'a>(state: &'a State, strategy: &Strategy) -> Vec<(&'a Strategy, Plan)> {
    let own: Vec<&Service> = strategy.services.iter().collect();
    let waits = |other: &&Release| {
        other.id != strategy.id && !other.deferred && matches!(other.state, ReleaseState::Planned)
    };
    let meets = |other: &&Release| meeting(&other.strategy.services, &own).is_some();
    let queued = state.releases.values().filter(waits).filter(meets);
    queued.map(|other| (&*other.strategy, plan::plan(&other.strategy, &state.shared))).collect()
}

/// The first port that a router is to give another service once a release begins that waits for its turn.
fn taken_by<'s>(
    queued: &[(&Strategy, Plan)],
    child: ChildKey,
    led: &[&'s Service],
    own: &ReleaseId,
) -> Option<Taken<'s>> {
    queued.iter().filter(|(_, plan)| plan.leaders().any(|leader| leader == child)).find_map(
        |(other, plan)| {
            let (of, port, service) = meeting(led_by(child, other, plan), led)?;
            let holder = match tenant::named(own.tenant(), &other.id) {
                tenant::ANOTHERS => format!("a service of {} release", tenant::ANOTHERS),
                release => format!("service {} of release {release}", of.name()),
            };
            let why = format!("{holder}, which waits for its turn, is to have it");
            Some(Taken { service: service.name(), port, why })
        },
    )
}

/// The first port of services that a router can't give them, beside all else that it leads.
fn taken<'s>(led: &[&'s Service], router: &Router, own: &ReleaseId) -> Option<Taken<'s>> {
    let is_led = |service: &traffic::Service| led.iter().any(|led| led.name() == service.name);
    let others: Vec<_> = router.services().filter(|service| !is_led(service)).collect();
    let mut holders: BTreeMap<Socket, Vec<(&Listen, String)>> = BTreeMap::new();
    for other in &others {
        for at in &other.led.ports {
            holders.entry(at.socket()).or_default().push((at, named(other, own)));
        }
    }
    let mut new: BTreeMap<Socket, &'s str> = BTreeMap::new();
    // Where the router itself listens, so that its own calls to there would go round.
    let mut opened: BTreeMap<Socket, String> = BTreeMap::new();
    for other in &others {
        for at in &other.led.ports {
            opened.entry(at.opened()).or_insert_with(|| named(other, own));
        }
    }
    for service in led.iter().copied() {
        for listen in &service.ports {
            let key = listen.socket();
            let taken = |why| Some(Taken { service: service.name(), port: listen.port, why });
            if let Some(has) = lacks(router, listen) {
                return taken(has);
            }
            let own = format!("service {}", service.name());
            // A service may have a host whose TLS passes at several ports.
            let met = |(at, holder): &&(&Listen, String)| {
                at.meets(listen) && (at.socket() == key || *holder != own)
            };
            let found = if listen.passes() {
                holders.values().flatten().find(met)
            } else {
                holders.get(&key).into_iter().flatten().find(met)
            };
            if let Some((at, holder)) = found {
                let what = if at.is_routed() { at.to_string() } else { "it".to_owned() };
                return taken(format!("{holder} has {what}"));
            }
            if taken_over_by(router, listen, service) != Some(Takeover::Nftables) {
                opened.entry(key).or_insert_with(|| own.clone());
                new.insert(key, service.name());
            }
            holders.entry(key).or_default().push((listen, own));
        }
    }
    for service in led.iter().copied() {
        for target in service.variations.iter().flat_map(|one| &one.targets) {
            let key = Socket { port: target.port, is_udp: service.protocol().is_udp() };
            if let Some(holder) = opened.get(&key).filter(|_| target.host.is_this_machine()) {
                let why = format!("{holder} has it, and {target} is a target: calls would go round");
                return Some(Taken { service: service.name(), port: target.port, why });
            }
        }
    }
    for other in &others {
        let is_udp = Protocol::of(&other.led.ports).is_udp();
        let targets = other.led.variations.iter().flat_map(|one| &one.targets);
        for target in targets.filter_map(|target| target.parse::<CallTarget>().ok()) {
            let found =
                new.get(&Socket { port: target.port, is_udp }).filter(|_| target.host.is_this_machine());
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

/// Where a router takes what a service is to take elsewhere, and why it doesn't take that from whoever has the port.
fn words(open: &[OpenPorts], takeover_trouble: Option<&str>, listen: &Listen) -> String {
    let open = open.iter().filter(|open| open.are_for(listen));
    let open: Vec<String> = open.map(ToString::to_string).collect();
    let ports = if open.is_empty() { "no port".to_owned() } else { open.join(", ") };
    let unopened = if listen.passes() { " with tls: pass" } else { "" };
    let instead = takeover_trouble
        .map(|why| format!(", and can't take calls over at ports of other programs: {why}"))
        .unwrap_or_default();
    format!("it takes {}{unopened} at {ports}{instead}", listen.protocol.name())
}
