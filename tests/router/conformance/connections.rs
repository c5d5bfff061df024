//! Services of connections without headers.

use std::net::IpAddr;

use traffic::{
    Bucket, HashFunction,
    desired::{Listen, Protocol, StickyTo},
};

use super::RealHaproxy;
use crate::{
    conformance::{Real as _, done, state::with_shares},
    world::{
        backend::Backend,
        caller::Caller,
        place::free_port,
        wants::{SALT, service, wanted},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_split_by_the_address_that_they_come_from() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[6_000, 4_000]);
    spec.hash = HashFunction::Xxh32;
    spec.listens = vec![Listen::new(port, Protocol::Tcp)];
    spec.sticky = Some(StickyTo::Address);
    done(&router, &wanted(1, &[&spec])).await;
    for (generation, shares) in (2..).zip([[6_000, 4_000], [1_000, 9_000], [10_000, 0]]) {
        spec = with_shares(&spec, &shares);
        assert!(!done(&router, &wanted(generation, &[&spec])).await.was_reloaded);
        for user in 0..300_u16 {
            let [high, low] = user.to_be_bytes();
            let from = IpAddr::from([127, 1 + high, low, 99]);
            let bucket = Bucket::of_key(HashFunction::Xxh32, SALT.as_bytes(), from.to_string().as_bytes());
            let expected = spec.variations[spec.table.variation(bucket).index()].name.to_string();
            let answer = Caller::from_address(real.at(port), from).get("/", &[]).await;
            assert_eq!(String::from_utf8(answer.body.clone()).unwrap(), expected);
            assert_eq!(answer.field("x-choirmaster-version"), None, "nothing is put into connections");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_a_key_are_drawn_each_by_itself() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
    spec.listens = vec![Listen::new(port, Protocol::Tcp)];
    spec.sticky = None;
    done(&router, &wanted(1, &[&spec])).await;
    let mut of_b = 0;
    for _ in 0..200 {
        of_b += i32::from(Caller::new(real.at(port)).variation(&[]).await == "B");
    }
    // Seven standard deviations.
    assert!((50..150).contains(&of_b), "{of_b}");
}
