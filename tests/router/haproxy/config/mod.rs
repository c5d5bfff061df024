//! What `HAProxy` is told, and what its answers mean, without one.

mod answers;
mod model;
mod section;
mod writes;

use std::{net::Ipv4Addr, path::Path};

use proptest::prelude::*;
use router::haproxy::config::{Folder, Frame};
use traffic::{
    HashFunction, Shares, Table, Variation as Which,
    desired::{
        DesiredConfig, Health, Listen, Number, Protocol, Rule, Service, ServiceSpec, StickyTo, Target,
        Variation,
    },
};

fn frame() -> Frame {
    Frame {
        folder: Folder::new(Path::new("/etc/haproxy/choirmaster")).unwrap(),
        addresses: vec![Ipv4Addr::UNSPECIFIED.into()],
        hard_stop_after: None,
        certificate: None,
        log: None,
    }
}

fn number(generation: u64) -> Number {
    Number { epoch: 3, generation }
}

fn wanted(generation: u64, specs: &[ServiceSpec]) -> DesiredConfig {
    let services = specs.iter().map(|spec| Service::new(spec.clone()).unwrap()).collect();
    DesiredConfig::new(number(generation), services).unwrap()
}

fn variation(name: &str, targets: &[&str]) -> Variation {
    let targets = targets.iter().map(|target| target.parse().unwrap()).collect();
    Variation { name: name.parse().unwrap(), targets, health: None }
}

/// On port 8080, sticky by a cookie, with a tenth for B.
fn shop() -> ServiceSpec {
    ServiceSpec {
        name: "shop".parse().unwrap(),
        listens: vec![Listen::new(8080, Protocol::Http)],
        sticky: Some(StickyTo::Cookie("cm".parse().unwrap())),
        rule: None,
        salt: "release-7".parse().unwrap(),
        hash: HashFunction::Xxh32,
        variations: vec![
            variation("A", &["127.0.0.1:9101", "[::1]:9102"]),
            variation("B", &["b.example:9111"]),
        ],
        table: Table::new(&Shares::new([9_000, 1_000]).unwrap()),
    }
}

/// Words that are allowed, and mean something to `HAProxy` or look as if they did.
const NAMES: [&str; 10] =
    ["if", "unless", "or", "state", "state.map", "server", "backend", "http", "quit", "prompt"];

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![prop::sample::select(&NAMES[..]).prop_map(str::to_owned), "[A-Za-z0-9][A-Za-z0-9._-]{0,62}"]
}

fn any_health() -> impl Strategy<Value = Option<Health>> {
    let health = ("/[!%&(-/0-:<-@A-Z\\[\\]^_`a-z|~]{0,60}", any::<bool>(), 100..100_000_u64, 1..5_u32);
    prop::option::of(health.prop_map(|(path, has_path, milliseconds, after)| Health {
        path: has_path.then(|| path.into()),
        interval: std::time::Duration::from_millis(milliseconds),
        healthy_after: after,
        ..Health::default()
    }))
}

fn any_target() -> impl Strategy<Value = Target> {
    let host = prop_oneof![
        Just("192.0.2.7".to_owned()),
        Just("[2001:db8::1]".to_owned()),
        Just("last-resort".to_owned()),
        "[a-z]([a-z0-9-]{0,20}[a-z0-9])?(\\.[a-z][a-z0-9]{0,7}){0,2}",
    ];
    (host, 1..=u16::MAX).prop_map(|(host, port)| format!("{host}:{port}").parse().unwrap())
}

fn any_table(variations: usize) -> impl Strategy<Value = Table> {
    prop::collection::vec(0..=10_000_u16, variations - 1).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts.push(10_000);
        let mut from = 0;
        let widths: Vec<u16> = cuts.into_iter().map(|to| to - std::mem::replace(&mut from, to)).collect();
        Table::new(&Shares::new(widths).unwrap())
    })
}

pub fn any_sticky() -> impl Strategy<Value = Option<StickyTo>> {
    prop_oneof![
        Just(None),
        Just(Some(StickyTo::Address)),
        "[A-Za-z0-9][A-Za-z0-9_-]{0,63}".prop_map(|name| Some(StickyTo::Cookie(name.parse().unwrap()))),
        "[A-Za-z0-9][A-Za-z0-9-]{0,63}".prop_map(|name| Some(StickyTo::Header(name.parse().unwrap()))),
    ]
}

fn any_rule(variations: usize) -> impl Strategy<Value = Option<Rule>> {
    let values = prop::collection::btree_map("[!-~]([ -~]{0,254}[!-~])?", 0..variations as u8, 0..6);
    let rule = ("[A-Za-z0-9][A-Za-z0-9-]{0,63}", values).prop_map(|(name, values)| Rule {
        name: name.parse().unwrap(),
        values: values.into_iter().map(|(value, which)| (value.parse().unwrap(), Which(which))).collect(),
    });
    prop::option::of(rule)
}

fn any_variations() -> impl Strategy<Value = Vec<Variation>> {
    let targets = prop::collection::btree_set(any_target(), 1..4);
    let one = (any_name(), targets, any_health());
    prop::collection::vec(one, 1..4).prop_map(|all| {
        let mut variations: Vec<Variation> = Vec::new();
        for (name, targets, health) in all {
            if !variations.iter().any(|there| there.name.as_str() == name) {
                let name = name.parse().unwrap();
                variations.push(Variation { name, targets: targets.into_iter().collect(), health });
            }
        }
        variations
    })
}

fn any_spec() -> impl Strategy<Value = ServiceSpec> {
    let with_variations = |variations: Vec<Variation>| {
        let count = variations.len();
        let rest = (any_name(), any_name(), any_sticky(), any_rule(count), any_table(count), any::<bool>());
        (Just(variations), rest)
    };
    any_variations().prop_flat_map(with_variations).prop_map(
        |(variations, (name, salt, sticky, rule, table, is_http))| {
            let has_headers = |sticky: &StickyTo| *sticky != StickyTo::Address;
            let protocol = if is_http { Protocol::Http } else { Protocol::Tcp };
            ServiceSpec {
                name: name.parse().unwrap(),
                listens: vec![Listen::new(1, protocol)],
                sticky: sticky.filter(|sticky| is_http || !has_headers(sticky)),
                rule: rule.filter(|_| is_http),
                salt: salt.parse().unwrap(),
                hash: HashFunction::Xxh32,
                variations,
                table,
            }
        },
    )
}

/// Services of different names, each on a port of its own.
fn any_specs() -> impl Strategy<Value = Vec<ServiceSpec>> {
    prop::collection::vec(any_spec(), 0..4).prop_map(|all| {
        let mut specs: Vec<ServiceSpec> = Vec::new();
        for (mut spec, port) in all.into_iter().zip(1..) {
            if !specs.iter().any(|there| there.name == spec.name) {
                spec.listens[0].port = port;
                specs.push(spec);
            }
        }
        specs
    })
}
