//! Each limit, and the answer of whoever meets it.

use std::time::Duration;

use proxy::{Limits, Proxy};
use serde_json::json;
use tokio::time::Instant;
use traffic::Failure;

use crate::{
    deadline::DEADLINE,
    world::{GET, LATER, NEVER, Running, SOON, Scripted, field, ok, start, start_with, until},
};

async fn with_base(limits: Limits) -> (Running, Scripted) {
    let running = start(limits);
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    (running, base)
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_with_431() {
    let (running, base) = with_base(Limits { head_bytes: 1_000, head_fields: 5, ..Limits::default() }).await;
    let large = format!("GET /a HTTP/1.1\r\nHost: h\r\nX-A: {}\r\n\r\n", "a".repeat(1_000));
    let long_target = format!("GET /a/{} HTTP/1.1\r\nHost: h\r\n\r\n", "b".repeat(1_000));
    let endless = format!("GET /a HTTP/1.1\r\nHost: h\r\nX-A: {}", "a".repeat(20_000));
    let many = format!("GET /a HTTP/1.1\r\nHost: h\r\n{}\r\n", "X-A: b\r\n".repeat(5));
    let small = "GET /a HTTP/1.1\r\nHost: h\r\nX-A: b\r\nX-A: b\r\nX-A: b\r\nX-A: b\r\n\r\n";
    for head in [large, long_target, endless, many] {
        let mut caller = running.caller().await;
        caller.send(&head).await;
        let answer = caller.rest().await;
        assert!(answer.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    }
    assert!(base.is_left_alone().await);
    let mut caller = running.caller().await;
    caller.send(small).await;
    base.accept().await.head().await;
}

#[tokio::test]
async fn the_largest_head_that_may_be_passes_byte_by_byte_too() {
    let (running, base) = with_base(Limits::default()).await;
    let mut caller = running.caller().await;
    let begin = "GET /a HTTP/1.1\r\nHost: h\r\nX-Long: ";
    let long = "x".repeat(64 * 1024 - begin.len() - 4);
    let head = format!("{begin}{long}\r\n\r\n");
    for byte in head.as_bytes().chunks(1) {
        caller.send(byte).await;
    }
    let mut version = base.accept().await;
    assert_eq!(field(&version.head().await, "x-long"), Some(long.as_str()));
    // And back.
    for byte in format!("HTTP/1.1 200 OK\r\nX-Long: {long}\r\nContent-Length: 0\r\n\r\n").as_bytes().chunks(1)
    {
        version.send(byte).await;
    }
    assert_eq!(field(&caller.head().await, "x-long"), Some(long.as_str()));
}

#[tokio::test]
async fn a_head_that_takes_too_long_is_answered_with_408_however_steadily_it_comes() {
    let (running, base) = with_base(Limits { head_time: SOON, ..Limits::default() }).await;
    let (mut caller, mut sending) = running.caller().await.twins();
    let drip = async {
        use tokio::io::AsyncWriteExt;
        for byte in b"GET /a HTTP/1.1\r\nX-Slow: ".iter().chain(std::iter::repeat(&b'a')) {
            let _ = sending.stream.write_all(&[*byte]).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let answer = tokio::select! {
        answer = caller.rest() => answer,
        () = drip => unreachable!("it has no end"),
    };
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    // Empty lines don't prolong it; nobody asked anything there, and so nothing is answered.
    let (mut caller, mut sending) = running.caller().await.twins();
    let drip = async {
        use tokio::io::AsyncWriteExt;
        while sending.stream.write_all(b"\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::join!(caller.gone(), drip);
    assert!(base.is_left_alone().await);
}

#[tokio::test]
async fn a_connection_that_is_idle_for_too_long_is_closed_without_a_word() {
    let (running, base) = with_base(Limits { idle: SOON, ..Limits::default() }).await;
    let mut fresh = running.caller().await;
    assert_eq!(fresh.rest().await, "");
    let mut used = running.caller_who_sent(GET).await;
    let mut version = base.accept().await;
    version.head().await;
    version.send(ok("once")).await;
    used.answer().await;
    assert_eq!(used.rest().await, "");
    running.settled().await;
}

#[tokio::test]
async fn stalled_request_body_gets_408_without_blaming_the_version() {
    let (running, base) = with_base(Limits { body_idle: SOON, ..Limits::default() }).await;
    let mut caller = running.caller().await;
    caller.send("PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf").await;
    let mut version = base.accept().await;
    version.head().await;
    let answer = caller.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    version.gone().await;
    running.settled().await;
    let counted = running.counted("base").await;
    assert_eq!((counted.calls, counted.callers_gone, counted.failed), (1, 1, [0; Failure::ALL.len()]));
}

#[tokio::test]
async fn an_upload_that_moves_is_not_held_against_the_version_however_long_it_takes() {
    let (running, base) = with_base(Limits { first_byte: SOON, ..Limits::default() }).await;
    let mut caller = running.caller().await;
    caller.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\n").await;
    let mut version = base.accept().await;
    version.head().await;
    // Longer altogether than the version would be waited for, and each pause too.
    let mut last = Instant::now();
    for pause in [SOON * 2, SOON / 10, SOON / 10, SOON * 2] {
        tokio::time::sleep(pause).await;
        last = Instant::now();
        caller.send("0123456789").await;
        assert_eq!(version.bytes(10).await, "0123456789");
    }
    // From the last byte on the version is waited for.
    let (head, _) = caller.answer().await;
    assert!(last.elapsed() >= SOON);
    assert!(head.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{head}");
    assert_eq!(field(&head, "x-choirmaster-error"), Some("timed_out"));
    version.gone().await;
    running.settled_with(1, 0).await;
    assert_eq!(running.counted("base").await.failed[Failure::TimedOut as usize], 1);
}

#[tokio::test]
async fn a_version_that_neither_says_go_on_nor_answers_is_not_waited_for() {
    let (running, base) = with_base(Limits { first_byte: SOON, ..Limits::default() }).await;
    let mut caller = running.caller().await;
    caller.send("POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n").await;
    let mut version = base.accept().await;
    version.head().await;
    let answer = caller.rest().await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    version.gone().await;
}

#[tokio::test]
async fn a_version_that_sends_word_again_and_again_and_no_answer_is_not_waited_for() {
    let (running, base) = with_base(Limits { first_byte: SOON, ..Limits::default() }).await;
    let mut caller = running.caller().await;
    caller.send(GET).await;
    let (mut version, mut sending) = base.accept().await.twins();
    version.head().await;
    let hints = async {
        use tokio::io::AsyncWriteExt;
        while sending.stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let answer = async {
        loop {
            let head = caller.head().await;
            if !head.starts_with("HTTP/1.1 103 ") {
                return head;
            }
        }
    };
    let both = tokio::time::timeout(DEADLINE, async { tokio::join!(answer, hints) });
    let (answer, ()) = both.await.expect("the version is waited for again and again");
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
}

#[tokio::test]
async fn a_version_that_takes_no_more_of_a_body_is_not_waited_for() {
    let running = start(Limits { body_idle: SOON, ..Limits::default() });
    // A socket of this kind holds less than the caller has sent before it begins.
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("base");
    let _base = tokio::net::UnixListener::bind(&target).unwrap();
    let target = format!("unix:{}", target.display());
    running.serve(json!({"variations": [{"name": "base", "targets": [target]}]})).await;
    let body = "x".repeat(1_000_000);
    let call = format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut caller = running.caller_who_sent(call).await;
    let head = caller.head().await;
    assert!(head.starts_with("HTTP/1.1 504 "), "{head}");
    caller.gone().await;
    assert_eq!(running.counted("base").await.failed[Failure::TimedOut as usize], 1);
}

#[tokio::test]
async fn an_answer_that_stands_still_breaks_off_at_the_version_or_at_the_caller() {
    let (running, base) = with_base(Limits { body_idle: SOON, ..Limits::default() }).await;
    let mut caller = running.caller().await;
    caller.send(GET).await;
    let mut version = base.accept().await;
    version.head().await;
    version.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
    let answer = caller.rest().await;
    assert!(answer.ends_with("\r\n\r\nhalf"), "{answer}");
    version.gone().await;
    running.settled().await;
    let counted = running.counted("base").await;
    assert_eq!((counted.broken_off, counted.callers_gone), (1, 0));

    // A caller that doesn't read: neither it nor the version holds anything for ever.
    let mut caller = running.narrow_caller().await;
    caller.send(GET).await;
    let mut version = base.accept().await;
    version.head().await;
    version.send(ok(&"x".repeat(1_000_000))).await;
    version.gone().await;
    running.settled().await;
    let counted = running.counted("base").await;
    assert_eq!((counted.broken_off, counted.callers_gone), (1, 1));
    assert_eq!(counted.failed, [0; Failure::ALL.len()]);
    drop(caller);
}

#[tokio::test]
async fn an_answer_that_moves_may_take_as_long_as_it_likes() {
    let limits = Limits { body_idle: LATER, first_byte: LATER, idle: LATER, ..Limits::default() };
    let (running, base) = with_base(limits).await;
    let mut caller = running.caller().await;
    caller.send(GET).await;
    let mut version = base.accept().await;
    version.head().await;
    version.send("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n").await;
    caller.head().await;
    for _ in 0..30 {
        tokio::time::sleep(LATER / 25).await;
        version.send("x").await;
        assert_eq!(caller.bytes(1).await, "x");
    }
}

#[tokio::test]
async fn call_is_queued_or_rejected_with_retry_after_at_capacity() {
    let limits = Limits { in_flight: 1, queue: 1, queue_time: NEVER, ..Limits::default() };
    let (running, base) = with_base(limits).await;
    let (mut first, mut queued, mut refused) =
        (running.caller().await, running.caller().await, running.caller().await);
    first.send(GET).await;
    let mut version = base.accept().await;
    version.head().await;
    // One of these two is queued, the other is told at once; which of them is not said.
    queued.send(GET).await;
    refused.send(GET).await;
    let (head, text, mut waiting) = tokio::select! {
        head = queued.head() => (head, queued, refused),
        head = refused.head() => (head, refused, queued),
    };
    drop(text);
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
    assert_eq!(
        (field(&head, "x-choirmaster-error"), field(&head, "retry-after")),
        (Some("refused"), Some("1"))
    );
    version.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\none").await;
    assert_eq!(first.answer().await.1, "one");
    let mut version = base.accept().await;
    version.head().await;
    version.send(ok("two")).await;
    assert_eq!(waiting.answer().await.1, "two");
    let counted = running.counted("base").await;
    assert_eq!((counted.calls, counted.failed[Failure::Refused as usize], counted.succeeded), (3, 1, 2));
}

#[tokio::test]
async fn call_queued_too_long_is_rejected_while_thread_serves_others() {
    // With one thread, a wait that keeps it busy would end nothing at all.
    let running = start_with(1, Limits { in_flight: 1, queue_time: SOON, ..Limits::default() });
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (mut first, mut second) = (running.caller().await, running.caller().await);
    first.send(GET).await;
    let mut version = base.accept().await;
    version.head().await;
    let (head, _) = second.call(GET).await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    version.send(ok("one")).await;
    assert_eq!(first.answer().await.1, "one");
    running.settled_with(2, 0).await;
    // The place is free again.
    second.send(GET).await;
    version.head().await;
    version.send(ok("two")).await;
    assert_eq!(second.answer().await.1, "two");
}

#[tokio::test]
async fn unresponsive_target_fails_call_without_trying_all_others() {
    let running = start_with(1, Limits { connect: SOON, ..Limits::default() });
    let silent = [Silent::new().await, Silent::new().await, Silent::new().await];
    let good = Scripted::new().await;
    let mut targets: Vec<String> = silent.iter().map(|silent| silent.at.to_string()).collect();
    targets.push(good.target());
    running.serve(json!({"variations": [{"name": "base", "targets": targets}]})).await;
    let mut caller = running.caller().await;
    let (head, body) = caller.call(GET).await;
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    assert_eq!(field(&head, "x-choirmaster-error"), Some("refused"));
    assert!(!body.contains("127.0.0.1"), "a caller learns where versions listen: {body}");
    assert!(good.is_left_alone().await);
    // The next call begins with the next target, and the good one is in reach.
    caller.send(GET).await;
    let mut version = good.accept().await;
    version.head().await;
    version.send(ok("there")).await;
    assert_eq!(caller.answer().await.1, "there");
}

/// A target that takes no connection and refuses none either, since as many wait there as can.
pub struct Silent {
    pub at: std::net::SocketAddr,
    _listener: tokio::net::TcpListener,
    _waiting: tokio::net::TcpStream,
}

impl Silent {
    pub async fn new() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // One can wait, and no other.
        let listener = socket.listen(0).unwrap();
        let at = listener.local_addr().unwrap();
        Self { at, _listener: listener, _waiting: tokio::net::TcpStream::connect(at).await.unwrap() }
    }
}

#[tokio::test]
async fn at_the_limit_of_connections_the_next_one_waits_until_one_ends() {
    let running = start_with(1, Limits { connections: 2, ..Limits::default() });
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (one, two) = (running.caller().await, running.caller().await);
    until("both are accepted", || running.proxy.connections() == 2).await;
    let mut third = running.caller().await;
    let nowhere = "GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n";
    third.send(nowhere).await;
    assert_eq!(running.proxy.connections(), 2);
    drop(one);
    assert!(third.head().await.starts_with("HTTP/1.1 404 "));
    drop(two);
}

#[tokio::test]
async fn a_version_keeps_no_more_idle_connections_than_said_and_none_for_longer() {
    let running = start_with(1, Limits { pool: 1, ..Limits::default() });
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (mut one, mut two) = (running.caller().await, running.caller().await);
    one.send(GET).await;
    let mut first = base.accept().await;
    first.head().await;
    two.send(GET).await;
    let mut second = base.accept().await;
    second.head().await;
    first.send(ok("one")).await;
    one.answer().await;
    second.send(ok("two")).await;
    two.answer().await;
    first.gone().await;
    one.send(GET).await;
    second.head().await;

    // The version says for how long it keeps a connection, and the call has to be there before that.
    second.send("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n").await;
    one.answer().await;
    second.gone().await;
}

#[tokio::test]
async fn an_idle_connection_holds_little() {
    // What the runtime adds to a task and to a socket is below a kilobyte.
    let held = Proxy::connection_bytes();
    assert!(held <= 4 * 1024, "{held}");
}
