//! Nobody is sent to a variation without a healthy target, and the stable one never loses all of its own.

use std::{collections::BTreeMap, time::Duration};

use router::Router;
use tokio::net::TcpListener;
use traffic::{
    HashFunction,
    desired::{Health, ServiceSpec},
    observed::ObservedConfig,
};

use super::RealHaproxy;
use crate::{
    conformance::{Real as _, done},
    loss::{message::Wire, wait::wait_until},
    world::{
        backend::Backend,
        caller::Caller,
        place::{self, free_port},
        wants::{RULE, rule, service, wanted},
    },
};

/// Serves as its name says, and answers checks with an error.
async fn start_sick(name: &'static str) -> Backend {
    let listener = TcpListener::bind(place::at(0)).await.unwrap();
    let backend = Backend::elsewhere(name, listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut wire = Wire::new(stream);
                while let Ok(call) = wire.read().await {
                    let status = if call.path() == "/ready" { "503 Sick" } else { "200 OK" };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{name}", name.len());
                    if wire.write(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    backend
}

fn checked(mut spec: ServiceSpec, path: Option<&str>) -> ServiceSpec {
    spec.hash = HashFunction::Xxh32;
    spec.sticky = None;
    for variation in &mut spec.variations {
        variation.health = Some(Health {
            path: path.map(Into::into),
            interval: Duration::from_millis(100),
            timeout: Duration::from_millis(500),
            ..Health::default()
        });
    }
    spec
}

fn health_of(seen: &ObservedConfig, variation: usize) -> Vec<Option<bool>> {
    let targets = &seen.services["checkout"].variations[variation].targets;
    targets.iter().map(|target| target.is_healthy).collect()
}

async fn until_health_is(router: &dyn Router, variation: usize, health: &[Option<bool>]) {
    let what = format!("the health of variation {variation} is {health:?}");
    wait_until(&what, async || health_of(&router.read().await.unwrap(), variation) == health).await;
}

async fn got(caller: &mut Caller, calls: u32) -> BTreeMap<String, u32> {
    let mut got = BTreeMap::new();
    for _ in 0..calls {
        *got.entry(caller.variation(&[]).await).or_default() += 1;
    }
    got
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_sent_to_a_variation_without_a_healthy_target() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = checked(service("checkout", port, &backends, &[0, 10_000]), Some("/ready"));
    spec.rule = Some(rule(&[("B", 1)]));
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    until_health_is(&*router, 1, &[Some(true)]).await;
    assert_eq!(got(&mut caller, 20).await, BTreeMap::from([("B".to_owned(), 20)]));
    let [stable, canary] = backends;
    drop(canary);
    until_health_is(&*router, 1, &[Some(false)]).await;
    assert_eq!(got(&mut caller, 20).await, BTreeMap::from([("A".to_owned(), 20)]));
    assert_eq!(caller.variation(&[(RULE, "B")]).await, "A", "whoever asks for it, too");
    assert_eq!(router.read().await.unwrap().services["checkout"].variations[1].hundredths, 10_000);
    drop(stable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stable_variation_serves_on_all_targets_when_all_are_taken_for_dead() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = [start_sick("A").await, start_sick("A2").await];
    let port = free_port();
    let mut spec = checked(service("checkout", port, &backends[..1], &[10_000]), Some("/ready"));
    spec.variations[0].targets.push(backends[1].target.clone());
    done(&router, &wanted(1, &[&spec])).await;
    until_health_is(&*router, 0, &[Some(false), Some(false)]).await;
    let got = got(&mut Caller::new(real.at(port)), 20).await;
    assert_eq!(got, BTreeMap::from([("A".to_owned(), 10), ("A2".to_owned(), 10)]));
    let seen = router.read().await.unwrap();
    assert_eq!(seen.services["checkout"].variations[0].targets.len(), 2, "each target is told once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_dead_target_is_left_out_and_a_connection_is_enough_without_a_path() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let [a, dies, b] = Backend::start_all(["A", "dies", "B"]).await;
    let port = free_port();
    let stays = [a, b];
    let mut spec = checked(service("checkout", port, &stays, &[10_000, 0]), None);
    spec.variations[0].targets.push(dies.target.clone());
    done(&router, &wanted(1, &[&spec])).await;
    drop(dies);
    wait_until("the target is found dead", async || {
        health_of(&router.read().await.unwrap(), 0) == [Some(true), Some(false)]
    })
    .await;
    assert_eq!(got(&mut Caller::new(real.at(port)), 20).await, BTreeMap::from([("A".to_owned(), 20)]));
}
