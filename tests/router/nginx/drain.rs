//! How many calls of a variation go on.

use std::time::Duration;

use router::controller::{DriveSettings, Lead, RouterEvent};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::real::RealNginx;
use crate::{
    conformance::{
        Real as _, done,
        drains::{all_to_b, begin, end},
        state::with_shares,
    },
    loss::wait::wait_until,
    names::Scripted,
    world::{
        backend::Backend,
        caller::Caller,
        place::{at, free_port},
        wants::{HEADER, service, wanted},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_body_is_still_sent_counts_where_it_will_go() {
    let real = RealNginx::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[0, 10_000]);
    spec.sticky = None;
    done(&router, &wanted(1, &[&spec])).await;
    let mut sends = TcpStream::connect(at(port)).await.unwrap();
    sends.write_all(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nha").await.unwrap();
    let count = async || router.connections("checkout", "B").await.unwrap();
    wait_until("it is counted", async || count().await == Some(1)).await;
    done(&router, &wanted(2, &[&with_shares(&spec, &[10_000, 0])])).await;
    assert_eq!(count().await, Some(1));
    sends.write_all(b"lf").await.unwrap();
    let mut answer = vec![0; 1_024];
    let length = sends.read(&mut answer).await.unwrap();
    assert!(answer[..length].ends_with(b"B"), "it went where it was given");
    wait_until("none is left", async || count().await == Some(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_with_the_last_call_and_not_with_its_deadline() {
    const NEVER: Duration = Duration::from_hours(24);
    let real = RealNginx::start().await;
    let router = real.open();
    let (spec, _stable, listener) = all_to_b::<RealNginx>().await;
    let port = spec.listens[0].port;
    let settings = DriveSettings::of(&*router);
    let lead = Lead::start(router.clone(), std::sync::Arc::new(Scripted::default()), settings);
    let mut facts = lead.facts();
    lead.want(wanted(1, &[&spec])).await.unwrap();
    let mut caller = Caller::new(at(port));
    wait_until("it is led", async || {
        tokio::select! {
            _ = caller.try_get("/", &[(HEADER, "user")]) => false,
            accepted = listener.accept() => { drop(accepted); true }
        }
    })
    .await;
    let goes_on = begin(port, &listener).await;
    lead.want(wanted(2, &[&with_shares(&spec, &[10_000, 0])])).await.unwrap();
    lead.drain("checkout", "B", NEVER).await.unwrap();
    let mut status = lead.status();
    let counts = |one: &router::controller::Draining| one.left == Some(1);
    status.wait_for(|status| status.draining.iter().any(counts)).await.unwrap();
    end(goes_on).await;
    let left = loop {
        if let RouterEvent::Drained { left, .. } = facts.recv().await.unwrap() {
            break left;
        }
    };
    assert_eq!(left, Some(0));
}
