//! Wanted states, and what a router was seen to do, as tests make them.

use std::time::Duration;

use proptest::prelude::*;
use traffic::{
    BUCKETS, HashFunction, Shares, Table, Variation as Which,
    desired::{
        DesiredConfig, Health, Listen, Number, Protocol, Rule, Service, ServiceError, ServiceSpec, Target,
        Variation,
    },
    observed::{ObservedConfig, SeenService, SeenTarget, SeenVariation},
};

pub const NUMBER: Number = Number { epoch: 1, generation: 7 };

pub fn target(text: &str) -> Target {
    text.parse().unwrap()
}

pub fn health() -> Health {
    Health { path: Some("/ready".into()), ..Health::default() }
}

pub fn variation(name: &str, targets: &[&str]) -> Variation {
    let targets = targets.iter().map(|text| target(text)).collect();
    Variation { name: name.parse().unwrap(), targets, health: Some(health()) }
}

pub fn table(hundredths: &[u16]) -> Table {
    Table::new(&Shares::new(hundredths).unwrap())
}

/// A service with one HTTP port and a variation for each share, each with two targets of its own.
pub fn spec(name: &str, port: u16, hundredths: &[u16]) -> ServiceSpec {
    let names = ["A", "B", "C", "D", "E", "F", "G", "H"];
    let variations = names.iter().zip(hundredths).enumerate().map(|(at, (name, _))| {
        let targets = [1, 2].map(|last| format!("10.0.{at}.{last}:9000"));
        variation(name, &targets.each_ref().map(String::as_str))
    });
    ServiceSpec {
        name: name.parse().unwrap(),
        listens: vec![Listen::new(port, Protocol::Http)],
        sticky: None,
        rule: None,
        salt: name.parse().unwrap(),
        hash: HashFunction::Murmur2,
        variations: variations.collect(),
        table: table(hundredths),
    }
}

pub fn wanted(specs: impl IntoIterator<Item = ServiceSpec>) -> DesiredConfig {
    let services: Result<Vec<Service>, ServiceError> = specs.into_iter().map(Service::new).collect();
    DesiredConfig::new(NUMBER, services.unwrap()).unwrap()
}

pub fn wants_by_header(mut spec: ServiceSpec, values: &[(&str, u8)]) -> ServiceSpec {
    let values = values.iter().map(|(value, which)| (value.parse().unwrap(), Which(*which))).collect();
    spec.rule = Some(Rule { name: "X-Variation".parse().unwrap(), values });
    spec
}

/// What a router is seen to do that does what is wanted.
pub fn obeyed(wanted: &DesiredConfig) -> ObservedConfig {
    let services = wanted.services().iter().map(|service| {
        let variations = service.variants().map(|one| SeenVariation {
            name: one.variation.name.to_string(),
            hundredths: one.hundredths,
            targets: one
                .variation
                .targets
                .iter()
                .map(|target| SeenTarget { target: target.clone(), is_healthy: None, connections: None })
                .collect(),
        });
        let seen = SeenService { variations: variations.collect(), table: Some(service.table.clone()) };
        (service.name.to_string(), seen)
    });
    ObservedConfig { number: Some(wanted.number), services: services.collect(), left_over: Vec::new() }
}

/// Shares of so many variations, of which some may have none.
pub fn any_shares(variations: usize) -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(prop_oneof![Just(0), Just(BUCKETS), 0..=BUCKETS], variations - 1).prop_map(
        |mut cuts| {
            cuts.sort_unstable();
            cuts.push(BUCKETS);
            let mut from = 0;
            cuts.into_iter().map(|to| to - std::mem::replace(&mut from, to)).collect()
        },
    )
}

/// Services of one to four variations. Some are not checked, some have a header rule that asks for any variation.
pub fn any_wanted() -> impl Strategy<Value = DesiredConfig> {
    let one = (1_usize..=4).prop_flat_map(|variations| {
        let rule = prop::option::of(prop::collection::vec(0..variations as u8, 0..4));
        (any_shares(variations), rule, prop::collection::vec(prop::bool::weighted(0.8), variations))
    });
    prop::collection::vec(one, 1..4).prop_map(|services| {
        wanted(services.into_iter().zip(0_u16..).map(|((shares, rule, are_checked), at)| {
            let mut spec = spec(&format!("s{at}"), 8_000 + at, &shares);
            for (variation, is_checked) in spec.variations.iter_mut().zip(are_checked) {
                variation.health = is_checked.then(health);
            }
            let Some(asked) = rule else { return spec };
            let names = ["v0", "v1", "v2", "v3"];
            let values: Vec<_> = names.into_iter().zip(asked).collect();
            wants_by_header(spec, &values)
        }))
    })
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
