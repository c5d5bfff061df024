//! How many connections a variation has still.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use traffic::{
    HashFunction,
    wanted::{Listen, Protocol},
};

use super::RealHaproxy;
use crate::{
    conformance::{Real as _, done, state::with_shares},
    loss::wait::wait_until,
    world::{
        backend::Backend,
        place::{at, free_port},
        wants::{service, wanted},
    },
};

/// A connection through the router, whose other end is given too.
async fn pass(port: u16, target: &TcpListener) -> (TcpStream, TcpStream) {
    let mut here = TcpStream::connect(at(port)).await.unwrap();
    here.write_all(b"a").await.unwrap();
    let (mut there, _) = target.accept().await.unwrap();
    there.read_exact(&mut [0]).await.unwrap();
    (here, there)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_counted_also_in_processes_that_were_replaced() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let stable = Backend::start("A").await;
    let listener = TcpListener::bind(at(0)).await.unwrap();
    let backends = [stable, Backend::elsewhere("B", listener.local_addr().unwrap())];
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[0, 10_000]);
    spec.hash = HashFunction::Xxh32;
    spec.listens = vec![Listen { port, protocol: Protocol::Tcp }];
    spec.sticky = None;
    done(&router, &wanted(1, &[&spec])).await;
    let count = async || router.connections("checkout", "B").await.unwrap();
    assert_eq!(count().await, Some(0));
    let first = pass(port, &listener).await;
    let second = pass(port, &listener).await;
    wait_until("both are counted", async || count().await == Some(2)).await;

    let next = with_shares(&spec, &[10_000, 0]);
    assert!(!done(&router, &wanted(2, &[&next])).await.was_reloaded);
    assert_eq!(count().await, Some(2), "a change of shares cuts nothing");
    let seen = router.read().await.unwrap();
    assert_eq!(seen.services["checkout"].variations[1].targets[0].connections, Some(2));
    router.reload().await.unwrap();
    assert_eq!(count().await, Some(2), "nor does a reload, and they are seen where they are");
    drop(first);
    wait_until("one is left", async || count().await == Some(1)).await;
    // Also once the variation is gone from what is wanted.
    let mut alone = next.clone();
    alone.variations.truncate(1);
    alone.table = traffic::Table::new(&traffic::Shares::new([10_000]).unwrap());
    assert!(done(&router, &wanted(3, &[&alone])).await.was_reloaded);
    assert_eq!(count().await, Some(1));
    drop(second);
    wait_until("none is left", async || count().await == Some(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_masters_socket_replaced_processes_make_the_count_unknown() {
    let real = RealHaproxy::start().await;
    let mut settings = real.settings();
    settings.master_socket = None;
    let router: std::sync::Arc<dyn choirmaster_router::Router> =
        std::sync::Arc::new(choirmaster_router::haproxy::Haproxy::open(settings).unwrap());
    let listener = TcpListener::bind(at(0)).await.unwrap();
    let backends = [Backend::elsewhere("A", listener.local_addr().unwrap())];
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[10_000]);
    spec.listens = vec![Listen { port, protocol: Protocol::Tcp }];
    spec.sticky = None;
    done(&router, &wanted(1, &[&spec])).await;
    let count = async || router.connections("checkout", "A").await.unwrap();
    wait_until("the process before is gone", async || count().await == Some(0)).await;
    let held = pass(port, &listener).await;
    wait_until("it is counted", async || count().await == Some(1)).await;
    spec.salt = "another".parse().unwrap();
    spec.variations[0].name = "A2".parse().unwrap();
    done(&router, &wanted(2, &[&spec])).await;
    assert_eq!(count().await, None);
    drop(held);
    wait_until("the process that was replaced is gone", async || count().await == Some(0)).await;
}
