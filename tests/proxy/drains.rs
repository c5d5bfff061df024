//! A proxy that ends: each connection is told so in an answer, and none is closed before.

use std::time::Duration;

use proxy::Limits;

use crate::{
    deadline::DEADLINE,
    world::{GET, Scripted, field, ok, start, until},
};

#[tokio::test]
async fn an_idle_connection_is_not_closed_and_its_next_answer_says_that_it_ends() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut callers = Vec::new();
    for _ in 0..4 {
        let mut caller = running.caller().await;
        caller.send(GET).await;
        let mut version = base.accept().await;
        version.head().await;
        version.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nfirst").await;
        let (head, body) = caller.answer().await;
        assert_eq!((field(&head, "connection"), body.as_str()), (None, "first"));
        callers.push(caller);
    }
    // One has a call under way.
    let mut under_way = running.caller().await;
    under_way.send(GET).await;
    let mut late = base.accept().await;
    late.head().await;
    // Nothing ends by itself.
    assert_eq!(running.proxy.drain(Duration::from_millis(50)).await, 5);
    for mut caller in callers {
        caller.send(GET).await;
        let mut version = base.accept().await;
        version.head().await;
        version.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast").await;
        let (head, body) = caller.answer().await;
        assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "last"));
        assert_eq!(caller.rest().await, "");
    }
    // The answer that was awaited when it began says so already.
    late.send(ok("late")).await;
    let (head, body) = under_way.answer().await;
    assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "late"));
    assert_eq!(under_way.rest().await, "");
    assert_eq!(running.proxy.drain(DEADLINE).await, 0);
}

#[tokio::test]
async fn a_caller_that_sends_a_second_call_at_once_gets_the_first_answer_whole() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    // The head of the first call is there; so the connection has been accepted when the drain begins.
    caller.send("GET /a/1 HTTP/1.1\r\n").await;
    until("the connection is there", || running.proxy.connections() == 1).await;
    assert_eq!(running.proxy.drain(Duration::ZERO).await, 1);
    caller.send("Host: h\r\n\r\nGET /a/2 HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut version = base.accept().await;
    assert!(version.head().await.starts_with("GET /1 "));
    version.send(ok("one")).await;
    let answer = caller.rest().await;
    assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("\r\n\r\none"), "{answer}");
    assert!(base.is_left_alone().await);
}

#[tokio::test]
async fn a_version_that_no_table_names_is_held_until_its_last_call_has_ended() {
    let running = start(Limits::default());
    let (old, next) = (Scripted::new().await, Scripted::new().await);
    running.serve_base(&old).await;
    let mut caller = running.caller().await;
    caller.send(GET).await;
    let mut version = old.accept().await;
    version.head().await;
    let table = crate::world::table_of(
        2,
        serde_json::json!({"variations": [{"name": "base", "targets": [next.target()]}]}),
    );
    running.proxy.apply(&table).await.unwrap();
    assert_eq!(running.proxy.leaving().len(), 1);
    // Further calls go to the new one.
    let mut second = running.caller().await;
    second.send(GET).await;
    let mut at_next = next.accept().await;
    at_next.head().await;
    at_next.send(ok("next")).await;
    assert_eq!(second.answer().await.1, "next");
    version.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").await;
    caller.head().await;
    assert_eq!(caller.bytes(4).await, "half");
    assert_eq!(running.proxy.leaving()[0].version.in_flight(), 1);
    version.send("half").await;
    assert_eq!(caller.bytes(4).await, "half");
    until("the version is drained", || running.proxy.leaving().is_empty()).await;
    // Its connection isn't kept for anybody.
    version.gone().await;
}
