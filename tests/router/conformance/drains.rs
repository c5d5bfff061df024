//! How many calls of a variation go on.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use traffic::desired::{Listen, Protocol, ServiceSpec};

use super::{Real, done, state::with_shares};
use crate::{
    loss::wait::wait_until,
    world::{
        backend::Backend,
        place::{at, free_port},
        wants::{service, wanted},
    },
};

/// A call that goes on, and its other end.
pub async fn begin(port: u16, target: &TcpListener) -> (TcpStream, TcpStream) {
    let mut here = TcpStream::connect(at(port)).await.unwrap();
    here.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
    let (mut there, _) = target.accept().await.unwrap();
    there.read_exact(&mut [0]).await.unwrap();
    (here, there)
}

pub async fn end((mut here, mut there): (TcpStream, TcpStream)) {
    there.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    let mut answer = vec![0; 1_024];
    let length = here.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 200 "));
}

/// A stable variation, and B with everything, whose target this test is.
pub async fn all_to_b<R: Real>() -> (ServiceSpec, Backend, TcpListener) {
    let stable = Backend::start("A").await;
    let listener = TcpListener::bind(at(0)).await.unwrap();
    let backends = [stable, Backend::elsewhere("B", listener.local_addr().unwrap())];
    let mut spec = service("checkout", free_port(), &backends, &[0, 10_000]);
    (spec.hash, spec.sticky) = (R::HASH, None);
    let [stable, _] = backends;
    (spec, stable, listener)
}

pub async fn calls_that_go_on_are_counted_also_in_processes_that_were_replaced<R: Real>() {
    // What comes over TLS is counted as what doesn't.
    for protocol in [Protocol::Http, Protocol::Tcp] {
        let reported = |connections| Some(R::reported(protocol, connections));
        let real = R::start().await;
        let router = real.open();
        let (mut spec, _stable, listener) = all_to_b::<R>().await;
        let port = spec.listens[0].port;
        spec.listens = vec![Listen::new(port, protocol)];
        done(&router, &wanted(1, &[&spec])).await;
        let count = async |variation| router.connections("checkout", variation).await.unwrap();
        assert_eq!((count("A").await, count("B").await), (Some(0), Some(0)));
        let first = begin(port, &listener).await;
        let second = begin(port, &listener).await;
        wait_until("both are counted", async || count("B").await == reported(2)).await;
        assert_eq!(count("A").await, Some(0));

        let next = with_shares(&spec, &[10_000, 0]);
        let was_reloaded = done(&router, &wanted(2, &[&next])).await.was_reloaded;
        assert_eq!(was_reloaded, R::reloads_for_shares(protocol));
        assert_eq!(count("B").await, reported(2), "a change of shares cuts nothing");
        router.reload().await.unwrap();
        assert_eq!(count("B").await, reported(2), "nor does a reload, and they are seen where they are");
        end(first).await;
        wait_until("one is left", async || count("B").await == reported(1)).await;
        // Also once the variation is gone from what is wanted.
        let mut alone = next.clone();
        alone.variations.truncate(1);
        alone.table = traffic::Table::new(&traffic::Shares::new([10_000]).unwrap());
        assert!(done(&router, &wanted(3, &[&alone])).await.was_reloaded);
        assert_eq!(count("B").await, reported(1));
        end(second).await;
        wait_until("none is left", async || count("B").await == Some(0)).await;
    }
}
