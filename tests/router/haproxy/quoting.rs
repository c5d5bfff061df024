//! `HAProxy`'s own parser on what people may choose.

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use traffic::{
    HashFunction, Shares, Table, Variation as Which,
    desired::{Health, Listen, Protocol, Rule, ServiceSpec, Variation},
    observed::differences,
};

use router::Router;

use super::{RealHaproxy, config::any_sticky};
use crate::{
    conformance::{Real as _, done},
    world::wants::wanted,
};

/// So many services are tried at once.
const SERVICES: u16 = 150;

fn any_name() -> impl Strategy<Value = String> {
    let words = [
        "if",
        "unless",
        "or",
        "state",
        "state.map",
        "server",
        "backend",
        "quit",
        "prompt",
        "http",
        "tcp",
        "FRONTEND",
        "BACKEND",
        "lua.x",
        "last-resort",
        "0",
    ];
    prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        "[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
    ]
}

fn any_health() -> impl Strategy<Value = Option<Health>> {
    let path = "/[!%&(-/0-:<-@A-Z\\[\\]^_`a-z|~]{0,60}";
    prop::option::of((path, 100..100_000_u64, 1..5_u32).prop_map(|(path, milliseconds, after)| Health {
        path: Some(path.into()),
        interval: std::time::Duration::from_millis(milliseconds),
        healthy_after: after,
        ..Health::default()
    }))
}

fn any_spec(at: u16) -> impl Strategy<Value = ServiceSpec> {
    let values = prop::collection::btree_map("[!-~]([ -~]{0,254}[!-~])?", 0..2_u8, 1..6);
    let rule = prop::option::of(("[A-Za-z0-9][A-Za-z0-9-]{0,63}", values));
    let names = (any_name(), any_name(), any_name());
    (names, any_sticky(), rule, any_health(), any::<bool>(), 0..=10_000_u16).prop_map(
        move |((name, stable, salt), sticky, rule, health, is_v6, share)| {
            let variation = |name: String, port: u16| Variation {
                name: name.parse().unwrap(),
                // Nobody is there.
                targets: vec![
                    format!("{}:{port}", if is_v6 { "[::1]" } else { "127.0.0.1" }).parse().unwrap(),
                ],
                health: health.clone(),
            };
            let end = if stable.ends_with('-') { '_' } else { '-' };
            let other = format!("{}{end}", stable.chars().take(60).collect::<String>());
            ServiceSpec {
                // Each is there once.
                name: format!("{}.{at}", name.chars().take(50).collect::<String>()).parse().unwrap(),
                listens: vec![Listen::new(1, Protocol::Http)],
                sticky,
                rule: rule.map(|(name, values)| Rule {
                    name: name.parse().unwrap(),
                    values: values
                        .into_iter()
                        .map(|(value, which)| (value.parse().unwrap(), Which(which)))
                        .collect(),
                }),
                salt: salt.parse().unwrap(),
                hash: HashFunction::Xxh32,
                variations: vec![variation(stable, 1), variation(other, 2)],
                table: Table::new(&Shares::new([10_000 - share, share]).unwrap()),
            }
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_people_choose_is_taken_and_read_back_as_it_was_meant() {
    let real = RealHaproxy::start().await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("lines").to_str().unwrap().parse().unwrap();
    for router in [real.open(), real.open_logging(&log, None)] {
        is_taken_and_read_back(&real, &router).await;
    }
}

async fn is_taken_and_read_back(real: &RealHaproxy, router: &std::sync::Arc<dyn Router>) {
    let mut runner = TestRunner::new(Config::default());
    let specs: Vec<ServiceSpec> = (0..SERVICES)
        .map(|at| {
            let mut spec = any_spec(at).new_tree(&mut runner).unwrap().current();
            spec.listens[0].port = crate::world::place::free_port();
            spec
        })
        .collect();
    let wanted = wanted(1, &specs.iter().collect::<Vec<_>>());
    done(router, &wanted).await;
    let seen = router.read().await.unwrap();
    assert_eq!(differences(&wanted, &seen), []);
    assert_eq!(seen.services.len(), specs.len());
    let checked = router.check(None).await.unwrap();
    assert_eq!((checked.refused, checked.left_over), (None, Vec::new()));
    // No more and no less than that is there, by its own count.
    let load = real.runtime().await.ask("show stat -1 3 -1").await;
    let ours = load.lines().filter(|line| line.starts_with("choirmaster:")).count();
    assert_eq!(ours, 1 + 3 * specs.len());
    assert!(!load.contains("ghost"));
}
