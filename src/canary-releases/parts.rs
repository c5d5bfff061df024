//! The parts of a canary: each has a table of its own where its calls are led, and so a weight of its own.
//!
//! Weighed, for several services and ports in one canary:
//! - *a release for each, driven as one*: a router has one release in hand, so the second would wait for the first; and no commit ends two;
//! - *a table for each port within a service*: what routers are told, what is read back and what is counted would all have a port more;
//! - *one release whose stages share several subjects at once* (`with_next`): offers, adoption, rollback and drain of several are there. Taken.
//!
//! Rules:
//! - A service with one port is one part, which is called like the service. One with several is a part for each of them, `NAME.PORT`. Where TLS
//!   passes, its ports are one part all the same: connections are told apart by their hosts alone, whatever port they came to.
//! - The strategy has a service for each part, in the order of the manifest, and a stage for each. The stage of the first part stands last: it
//!   is the one that lasts, `canary`, and it has the facts of the release. The others begin with it, so that a router puts all weights in force
//!   by one table. Which weight a part has is one fact of its stage, replaced in place; several are chosen in one commit.
//! - What is started for a version is started once for each part, from one folder for all parts of a service, with the same limits each. An agent
//!   knows what it started by what it leads, so no part stops or drains what another one has.
//! - All parts are led by the same routers, and each router leads all of them or takes no part.
//!
//! Invariants:
//! - *Together or not at all.* Where one part can't be led (its port is taken, the router refuses it), the canary doesn't begin there. Where one
//!   doesn't answer when it is to be adopted, all parts give their calls back; the registered release changes once, when all are adopted.
//!   Deprecated, all give them back by one table, and the release is over once the last calls of the slowest have ended, or their time is up.
//! - *A kill in between* finds one state of the agent and one table with all parts, or without any.
//! - What is called a part stays one for as long as its service has these ports, whatever its weights are and were.
//!
//! Counter-example to that last: a service is one part while its ports have one weight, and several once they differ. Then what an adopted canary
//! left would have a port that the next one gives to a service of another name, and who rolls that one back takes the port away from both.
//!
//! Deliberately not so: a router that is to go back without having the canary in hand (it was done before others, or lost its state) is told so of
//! one part after the other, since that is how rollbacks are offered. And weights say nothing of callers: each call of each part is given out by
//! itself, so whoever calls two parts may meet two versions.

use std::slice;

use ab_releases::Fault;
use protocol::{
    ab_releases::EnvironmentPort,
    canary_releases::{CanaryPort, CanaryService, ReleaseService},
};
use traffic::desired::{Name, TlsEnd};

use super::words::quoted;

/// What has a weight of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part<'r> {
    /// What it is called where its calls are led.
    pub name: String,
    /// At least one.
    pub ports: &'r [EnvironmentPort],
}

/// What a port is called where it is one of several.
fn of_port(service: &str, port: u16) -> String {
    format!("{service}.{port}")
}

/// The parts of a service, in the order of its ports.
pub(super) fn parts(service: &ReleaseService) -> Vec<Part<'_>> {
    let ReleaseService { name, ports, .. } = service;
    let passes = |port: &EnvironmentPort| port.tls.as_deref() == Some(TlsEnd::Pass.name());
    if ports.len() == 1 || ports.iter().any(passes) {
        return vec![Part { name: name.clone(), ports }];
    }
    ports.iter().map(|port| Part { name: of_port(name, port.port), ports: slice::from_ref(port) }).collect()
}

/// The service of which something is a part; one that was led as a whole, whatever its ports, is so, too.
pub(super) fn service_of<'r>(services: &'r [ReleaseService], part: &str) -> Option<&'r ReleaseService> {
    let is_whole = |service: &&ReleaseService| service.name == part;
    let has = |service: &&ReleaseService| parts(service).iter().any(|own| own.name == part);
    services.iter().find(is_whole).or_else(|| services.iter().find(has))
}

/// What a canary says of the service of which something is a part, and its place. `ports`: those of the part.
pub(super) fn asked_of<'c>(
    services: &'c [CanaryService],
    part: &str,
    ports: &[u16],
) -> Option<(usize, &'c CanaryService)> {
    let is_of = |service: &str| service == part || ports.iter().any(|port| of_port(service, *port) == part);
    services.iter().enumerate().find(|(_, asked)| is_of(&asked.service))
}

/// What a port is to get, in percent: what is said of it, or, where nothing is, what all get of which something is. `None`: these differ.
pub(super) fn weight_at(asked: &CanaryService, port: u16) -> Option<u16> {
    let weight = |port: &CanaryPort| port.config.weight.and_then(|weight| u16::try_from(weight).ok());
    match asked.ports.iter().find(|named| named.port == i32::from(port)) {
        Some(named) => weight(named),
        None => one(asked.ports.iter().map(weight)),
    }
}

/// What all of them are; `None`: they differ, or there are none.
pub(super) fn one<T: PartialEq>(all: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    let mut all = all.into_iter();
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Whether each part has a name of its own.
///
/// # Errors
///
/// The service with the first that hasn't.
pub(super) fn check(services: &[ReleaseService]) -> Result<(), Fault> {
    let mut known: Vec<(String, String)> = Vec::new();
    for (at, service) in services.iter().enumerate() {
        let fault = |why: String| Fault::new(format!("spec.services[{at}].name"), why);
        for Part { name, ports } in parts(service) {
            let called = match ports {
                [port] if name != service.name => {
                    format!("port {} of service {}", port.port, quoted(&service.name))
                }
                _ => format!("service {}", quoted(&service.name)),
            };
            if name.parse::<Name>().is_err() {
                return Err(fault(format!(
                    "{called} is led as {}, and such a name has at most 63 letters, digits and . _ -: call the service otherwise",
                    quoted(&name)
                )));
            }
            if let Some((_, other)) = known.iter().find(|(taken, _)| *taken == name) {
                let name = quoted(&name);
                return Err(fault(format!(
                    "{called} is led as {name}, and so is {other}: call one of them otherwise"
                )));
            }
            known.push((name, called));
        }
    }
    Ok(())
}
