//! How many connections a variation has still.

use tokio::net::TcpListener;
use traffic::desired::{Listen, Protocol};

use super::RealHaproxy;
use crate::{
    conformance::{
        Real as _, done,
        drains::{all_to_b, begin},
    },
    loss::wait::wait_until,
    world::{
        backend::Backend,
        place::{at, free_port},
        wants::{service, wanted},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_told_by_target() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let (mut spec, _stable, listener) = all_to_b::<RealHaproxy>().await;
    let port = spec.listens[0].port;
    spec.listens = vec![Listen::new(port, Protocol::Tcp)];
    done(&router, &wanted(1, &[&spec])).await;
    let held = [begin(port, &listener).await, begin(port, &listener).await];
    wait_until("both are told", async || {
        let seen = router.read().await.unwrap();
        seen.services["checkout"].variations[1].targets[0].connections == Some(2)
    })
    .await;
    // Who is cut off is told of no more.
    drop(held);
    wait_until("none is left", async || router.connections("checkout", "B").await.unwrap() == Some(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_masters_socket_replaced_processes_make_the_count_unknown() {
    let real = RealHaproxy::start().await;
    let mut settings = real.settings();
    settings.master_socket = None;
    let router: std::sync::Arc<dyn router::Router> =
        std::sync::Arc::new(router::haproxy::Haproxy::open(settings).unwrap());
    let listener = TcpListener::bind(at(0)).await.unwrap();
    let backends = [Backend::elsewhere("A", listener.local_addr().unwrap())];
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[10_000]);
    spec.listens = vec![Listen::new(port, Protocol::Tcp)];
    spec.sticky = None;
    done(&router, &wanted(1, &[&spec])).await;
    let count = async || router.connections("checkout", "A").await.unwrap();
    wait_until("the process before is gone", async || count().await == Some(0)).await;
    let held = begin(port, &listener).await;
    wait_until("it is counted", async || count().await == Some(1)).await;
    spec.salt = "another".parse().unwrap();
    spec.variations[0].name = "A2".parse().unwrap();
    done(&router, &wanted(2, &[&spec])).await;
    assert_eq!(count().await, None);
    drop(held);
    wait_until("the process that was replaced is gone", async || count().await == Some(0)).await;
}
