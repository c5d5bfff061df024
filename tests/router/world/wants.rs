use traffic::{
    HashFunction, Shares, Table, Variation as Which,
    desired::{DesiredConfig, Listen, Number, Protocol, Rule, Service, ServiceSpec, StickyTo, Variation},
};

use super::backend::Backend;

pub const COOKIE: &str = "cm_user";
pub const HEADER: &str = "X-User";
pub const RULE: &str = "X-Variation";
pub const SALT: &str = "release-7";

pub fn number(generation: u64) -> Number {
    Number { epoch: 3, generation }
}

pub fn shares(hundredths: &[u16]) -> Shares {
    Shares::new(hundredths).unwrap()
}

/// A service on this port with a variation for each of these backends, of its name; sticky by [`COOKIE`].
pub fn service(name: &str, port: u16, backends: &[Backend], hundredths: &[u16]) -> ServiceSpec {
    let variation = |backend: &Backend| Variation {
        name: backend.name.parse().unwrap(),
        targets: vec![backend.target.clone()],
        health: None,
    };
    ServiceSpec {
        name: name.parse().unwrap(),
        listens: vec![Listen::new(port, Protocol::Http)],
        sticky: Some(StickyTo::Cookie(COOKIE.parse().unwrap())),
        rule: None,
        salt: SALT.parse().unwrap(),
        hash: HashFunction::Murmur2,
        variations: backends.iter().map(variation).collect(),
        table: Table::new(&shares(hundredths)),
    }
}

/// Values of [`RULE`] that ask for the variations at these places.
pub fn rule(values: &[(&str, u8)]) -> Rule {
    let values = values.iter().map(|&(value, which)| (value.parse().unwrap(), Which(which))).collect();
    Rule { name: RULE.parse().unwrap(), values }
}

pub fn wanted(generation: u64, services: &[&ServiceSpec]) -> DesiredConfig {
    let services = services.iter().map(|&spec| Service::new(spec.clone()).unwrap()).collect();
    DesiredConfig::new(number(generation), services).unwrap()
}
