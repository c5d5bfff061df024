//! What calls may use, and what is said where they need more.

use std::time::Duration;

use agent::runtime::wasm::form::{Bounds, Destination};
use tokio::net::TcpListener;

use super::{GRACE, Start, WasmWorld, World, bodies::Slow, can, log_of, started};
use crate::{
    calls::{get, post},
    world::wait_until,
};

#[tokio::test]
async fn a_call_that_fails_ends_alone_and_the_log_says_why() {
    if !can("a call that fails") {
        return;
    }
    let world = WasmWorld::new();
    let (runtime, order, running) = started(&world).await;
    for (word, answer, logged) in [
        ("trap", "the function failed: its log says where", "unreachable"),
        ("die", "the function ended with status 3 and without an answer", "status 3"),
        ("grow", "the function needed more memory than the 67108864 bytes that a call has", "67108864 bytes"),
        ("silent", "the function gave no answer", ""),
    ] {
        let said = post(&running.target, word).await;
        assert_eq!(said.status, 500, "{word}: {}", said.body);
        assert!(said.body.starts_with(answer), "{word}: {}", said.body);
        assert_eq!(get(&running.target, "/").await.body, "Hello, world!", "after {word}");
        wait_until("it is logged", async || log_of(&runtime, &order).await.contains(logged).then_some(()))
            .await;
    }
    let now = runtime.list().await.unwrap().pop().unwrap();
    assert_eq!((now.pid, now.restarts), (running.pid, 0), "the host lives");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn wasm_call_over_time_limit_is_ended_without_blocking_others() {
    if !can("a call that takes too long") {
        return;
    }
    let second = Duration::from_secs(1);
    let world = WasmWorld::with(Bounds { compute: second, time: 3 * second, ..Bounds::default() });
    let (runtime, order, running) = started(&world).await;
    // More than there are processors.
    let spinning: Vec<_> = (0..8)
        .map(|_| {
            let target = running.target.clone();
            tokio::spawn(async move { post(&target, "spin").await })
        })
        .collect();
    assert_eq!(get(&running.target, "/").await.status, 200);
    for spun in spinning {
        let spun = spun.await.unwrap();
        let computed =
            spun.status == 500 && spun.body.starts_with("the function computed for longer than the 1 s");
        // With few processors, not all have computed for a second when their time is over.
        let took = spun.status == 504 && spun.body.starts_with("the function took longer than the 3 s");
        assert!(computed || took, "{spun:?}");
    }
    let waited = post(&running.target, "wait").await;
    assert_eq!(
        (waited.status, waited.body.trim()),
        (504, "the function took longer than the 3 s that a call has")
    );
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn calls_beyond_as_many_as_there_may_be_are_told_to_come_again() {
    if !can("calls beyond the limit") {
        return;
    }
    let world = WasmWorld::with(Bounds { calls: 2, ..Bounds::default() });
    let (runtime, order, running) = started(&world).await;
    let mut first = Slow::begin(&running.target, "/echo", 2).await;
    let mut second = Slow::begin(&running.target, "/echo", 2).await;
    let refused = get(&running.target, "/").await;
    assert_eq!(
        (refused.status, refused.body.trim()),
        (503, "the function has 2 calls at once, which is its limit")
    );
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    for slow in [&mut first, &mut second] {
        slow.send(b"ab").await;
        assert_eq!(slow.receive(2).await, b"ab");
        slow.end().await;
    }
    assert_eq!(get(&running.target, "/").await.status, 200);
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn calls_that_have_all_the_memory_let_another_one_fail_and_not_the_host() {
    if !can("calls that have all the memory") {
        return;
    }
    let mut world = WasmWorld::new();
    world.bounds.memory = 40 << 20;
    let runtime = world.open();
    // Each instance needs 32 MiB, and all together have 96.
    let mut order = world.guest(Start::Needs32MiB);
    order.limits.memory = 128 << 20;
    let running = runtime.start(&order).await.unwrap();
    let mut first = Slow::begin(&running.target, "/echo", 2).await;
    let mut second = Slow::begin(&running.target, "/echo", 2).await;
    let refused = get(&running.target, "/").await;
    assert_eq!(refused.status, 500);
    let said = "more memory than the 41943040 bytes that a call has, or than was left";
    assert!(refused.body.contains(said), "{}", refused.body);
    for slow in [&mut first, &mut second] {
        slow.send(b"ab").await;
        assert_eq!(slow.receive(2).await, b"ab");
        slow.end().await;
    }
    wait_until("its memory is given back", async || {
        (get(&running.target, "/").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(runtime.list().await.unwrap().pop().unwrap().restarts, 0);
    runtime.stop(&order.version, GRACE).await.unwrap();
}

/// The number of the error `HTTP-request-denied`, and what the guest adds to it.
const DENIED: &str = "1015";

#[tokio::test]
async fn a_call_reaches_those_that_are_named_and_nobody_else() {
    if !can("outgoing calls") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let closed = WasmWorld::new();
    let (runtime, order, running) = started(&closed).await;
    assert_eq!(post(&running.target, &format!("call {address}")).await.body, DENIED, "nobody is named");
    runtime.stop(&order.version, GRACE).await.unwrap();
    let outgoing = vec![address.to_string().parse::<Destination>().unwrap()];
    let open = WasmWorld::with(Bounds { outgoing, ..Bounds::default() });
    let (runtime, order, running) = started(&open).await;
    let elsewhere = format!("call 127.0.0.1:{}", address.port() ^ 1);
    assert_eq!(post(&running.target, &elsewhere).await.body, DENIED, "another port");
    assert_eq!(post(&running.target, &format!("call localhost:{}", address.port())).await.body, DENIED);
    assert_eq!(post(&running.target, &format!("call {address}")).await.body, "204");
    assert!(served.await.unwrap().contains(&format!("host: {address}")));
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[test]
fn who_may_be_called_is_a_host_and_maybe_a_port() {
    let read = |text: &str| text.parse::<Destination>();
    for (text, host, port, is_allowed) in [
        ("API.example.org", "api.example.org", 443, true),
        ("api.example.org", "API.example.org", 8443, false),
        ("api.example.org:8443", "api.example.org", 8443, true),
        ("api.example.org:8443", "api.example.org", 443, false),
        ("example.org", "api.example.org", 443, false),
        ("[::1]:80", "[::1]", 80, true),
        ("[::1]", "[::1]", 443, true),
        ("10.0.0.1", "10.0.0.1", 443, true),
    ] {
        assert_eq!(read(text).unwrap().allows(host, port, 443), is_allowed, "{text}: {host}:{port}");
    }
    for text in [
        "",
        "https://api.example.org",
        "a b",
        "api.example.org:0",
        "api.example.org:x",
        "[::1",
        "::1",
        "*",
        "a/b",
        "u@h",
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains("is no host, as in api.example.org"), "{error}");
    }
    assert_eq!(read("[::1]:80").unwrap().to_string(), "[::1]:80");
}
