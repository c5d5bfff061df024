//! Wanted states, and a router in memory that was told them.

use std::{collections::BTreeSet, sync::Arc};

use traffic::{
    HashFunction, Shares, Table, Variation as Which,
    desired::{self, DesiredConfig, Listen, Number, Protocol, Rule, Service, ServiceSpec, Target, Variation},
    health::{Health, Probe, Verdict},
    observed::{ObservedConfig, SeenService, SeenTarget, SeenVariation},
};

pub fn number(generation: u64) -> Number {
    Number { epoch: 1, generation }
}

pub fn target(text: &str) -> Target {
    text.parse().unwrap()
}

pub fn table(hundredths: &[u16]) -> Table {
    Table::new(&Shares::new(hundredths).unwrap())
}

/// A service on this port, with a variation for each share; each has two targets, which are looked at.
pub fn spec(name: &str, port: u16, hundredths: &[u16]) -> ServiceSpec {
    let variation = |(at, name): (usize, &str)| Variation {
        name: name.parse().unwrap(),
        targets: [1, 2].map(|last| target(&format!("10.{}.{at}.{last}:9000", port % 256))).to_vec(),
        health: Some(desired::Health { path: Some("/ready".into()), ..desired::Health::default() }),
    };
    let names = ["A", "B", "C", "D"];
    ServiceSpec {
        name: name.parse().unwrap(),
        listens: vec![Listen::new(port, Protocol::Http)],
        sticky: None,
        rule: None,
        salt: "salt".parse().unwrap(),
        hash: HashFunction::Murmur2,
        variations: names.into_iter().take(hundredths.len()).enumerate().map(variation).collect(),
        table: table(hundredths),
    }
}

pub fn by_header(mut spec: ServiceSpec, which: u8) -> ServiceSpec {
    let values = vec![("B".parse().unwrap(), Which(which))];
    spec.rule = Some(Rule { name: "X-Variation".parse().unwrap(), values });
    spec
}

pub fn wanted_of(generation: u64, specs: Vec<ServiceSpec>) -> DesiredConfig {
    let services = specs.into_iter().map(|spec| Service::new(spec).unwrap()).collect();
    DesiredConfig::new(number(generation), services).unwrap()
}

/// The service `shop` with these shares.
pub fn shop(generation: u64, hundredths: &[u16]) -> DesiredConfig {
    wanted_of(generation, vec![spec("shop", 8080, hundredths)])
}

/// What a router is seen to do that does this.
pub fn obeyed(wanted: &DesiredConfig) -> ObservedConfig {
    let services = wanted.services().iter().map(|service| {
        let variations = service.variants().map(|one| {
            let target =
                |target: &Target| SeenTarget { target: target.clone(), is_healthy: None, connections: None };
            SeenVariation {
                name: one.variation.name.to_string(),
                hundredths: one.hundredths,
                targets: one.variation.targets.iter().map(target).collect(),
            }
        });
        let seen = SeenService { variations: variations.collect(), table: Some(service.table.clone()) };
        (service.name.to_string(), seen)
    });
    ObservedConfig { number: Some(wanted.number), services: services.collect(), left_over: Vec::new() }
}

/// Shares of a service that a router was seen to have.
pub fn shares(seen: &ObservedConfig, service: &str) -> Vec<u16> {
    seen.services[service].variations.iter().map(|variation| variation.hundredths).collect()
}

/// Somebody shares the calls of a service in another way, by hand.
pub fn edit(seen: &mut ObservedConfig, service: &str, hundredths: &[u16]) {
    let service = seen.services.get_mut(service).unwrap();
    for (variation, share) in service.variations.iter_mut().zip(hundredths) {
        variation.hundredths = *share;
    }
    service.table = Some(table(hundredths));
}

/// All targets are healthy but these, which are not, or of which nothing is known.
pub fn health(wanted: &DesiredConfig, bad: &BTreeSet<Target>, unknown: &BTreeSet<Target>) -> Health {
    let variations = wanted.services().iter().flat_map(|service| &service.variations);
    let probes = variations.flat_map(|variation| {
        let how = variation.health.clone();
        let targets = variation.targets.iter();
        targets.filter_map(move |target| Some(Probe { target: target.clone(), how: how.clone()? }))
    });
    let verdict = |probe: &Probe| match () {
        () if unknown.contains(&probe.target) => Verdict::Unknown,
        () if bad.contains(&probe.target) => Verdict::Unhealthy,
        () => Verdict::Healthy,
    };
    probes.map(|probe| (verdict(&probe), probe)).map(|(verdict, probe)| (Arc::new(probe), verdict)).collect()
}
