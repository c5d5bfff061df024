//! Where a call goes that a version failed, and how often.

use proxy::Limits;
use serde_json::json;
use traffic::Failure;

use crate::world::{GET, LATER, Peer, Running, Scripted, field, ok, start, start_with, version};

const BROKEN: &str = "HTTP/1.1 500 Broken\r\nContent-Length: 6\r\n\r\nbroken";
const POST: &str = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";

async fn two() -> (Running, Scripted, Scripted) {
    let running = start(Limits::default());
    let (base, new) = (Scripted::new().await, Scripted::new().await);
    running.serve_new(&base, &new).await;
    (running, base, new)
}

/// How a new version fails a call that it has read.
async fn fail(mut version: Peer, how: Failure) {
    match how {
        Failure::Refused | Failure::TimedOut => unreachable!("neither reads a call and does something"),
        Failure::Died => version.reset(),
        Failure::Nonsense => version.send("what?\r\n\r\n").await,
        Failure::Status => version.send("HTTP/1.1 503 Not now\r\nContent-Length: 4\r\n\r\nnope").await,
    }
}

#[tokio::test]
async fn repeatable_call_is_answered_by_base_when_new_version_fails() {
    let (running, base, new) = two().await;
    let mut caller = running.caller().await;
    let mut at_base = None;
    for (before, how) in (0..).zip([Failure::Died, Failure::Nonsense, Failure::Status]) {
        caller.send("PUT /a/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello").await;
        let mut version = new.accept().await;
        version.head().await;
        assert_eq!(version.bytes(5).await, "hello");
        fail(version, how).await;
        let at_base = match &mut at_base {
            Some(at_base) => at_base,
            None => at_base.insert(base.accept().await),
        };
        assert!(at_base.head().await.starts_with("PUT /x "));
        assert_eq!(at_base.bytes(5).await, "hello");
        at_base.send(ok("base")).await;
        let (head, body) = caller.answer().await;
        assert_eq!((field(&head, "x-choirmaster-version"), body.as_str()), (Some("base"), "base"));
        let counted = running.counted("new").await;
        assert_eq!((counted.calls, counted.repeated), (before + 1, before + 1));
        assert_eq!(counted.failed[how as usize], 1);
        assert_eq!(counted.succeeded, 0);
        assert_eq!(running.counted("base").await.calls, 0);
    }
}

#[tokio::test]
async fn non_repeatable_call_falls_back_only_if_version_saw_nothing() {
    let running = start(Limits::default());
    let (base, new) = (Scripted::new().await, Scripted::new().await);
    running.serve_new(&base, &new).await;
    for how in [Failure::Died, Failure::Nonsense] {
        let mut caller = running.caller().await;
        caller.send(POST).await;
        let mut version = new.accept().await;
        version.head().await;
        assert_eq!(version.bytes(5).await, "hello");
        fail(version, how).await;
        let (head, _) = caller.answer().await;
        assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
        assert_eq!(field(&head, "x-choirmaster-error"), Some(how.name()));
        // The call was read whole: the next one can follow.
        assert_eq!(field(&head, "connection"), None);
    }
    let mut caller = running.caller().await;
    caller.send(POST).await;
    let mut version = new.accept().await;
    version.head().await;
    version.bytes(5).await;
    version.send(BROKEN).await;
    assert_eq!(caller.answer().await.1, "broken");
    drop(version);
    let counted = running.counted("new").await;
    assert_eq!((counted.calls, counted.repeated, counted.errors), (3, 0, 1));
    assert!(base.is_left_alone().await);

    // Nobody listens: it can't have been seen.
    drop(new);
    caller.send(POST).await;
    let mut at_base = base.accept().await;
    at_base.head().await;
    assert_eq!(at_base.bytes(5).await, "hello");
    at_base.send(ok("base")).await;
    assert_eq!(caller.answer().await.1, "base");
    let counted = running.counted("new").await;
    assert_eq!((counted.calls, counted.repeated, counted.failed[Failure::Refused as usize]), (4, 1, 1));
}

#[tokio::test]
async fn a_call_whose_body_still_comes_is_repeated_with_all_of_it() {
    let (running, base, new) = two().await;
    let mut caller = running.caller().await;
    caller.send("PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhel").await;
    let mut version = new.accept().await;
    version.head().await;
    assert_eq!(version.bytes(3).await, "hel");
    version.send(BROKEN).await;
    let mut at_base = base.accept().await;
    at_base.head().await;
    assert_eq!(at_base.bytes(3).await, "hel");
    caller.send("lo the").await;
    assert_eq!(at_base.bytes(6).await, "lo the");
    caller.send("r").await;
    assert_eq!(at_base.bytes(1).await, "r");
    at_base.send(ok("whole")).await;
    assert_eq!(caller.answer().await.1, "whole");
    // The new version had a part of the call: what comes next is no call to it.
    version.gone().await;
}

#[tokio::test]
async fn connection_is_not_reused_after_failure_before_whole_request() {
    let (running, base, new) = two().await;
    let mut caller = running.caller().await;
    let length = 4_000_000;
    caller.send(format!("PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n12345")).await;
    let mut version = new.accept().await;
    version.head().await;
    // Everything about this answer says that the connection goes on.
    version.send(BROKEN).await;
    let mut at_base = base.accept().await;
    at_base.head().await;
    at_base.send(ok("early")).await;
    let answer = caller.rest().await;
    assert!(answer.ends_with("\r\n\r\nearly"), "{answer}");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    version.gone().await;
    at_base.gone().await;
    let mut caller = running.caller().await;
    caller.send(GET).await;
    let mut version = new.accept().await;
    assert!(version.head().await.starts_with("GET "));
}

#[tokio::test]
async fn the_rest_of_a_body_that_no_version_took_is_not_read_as_a_call() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let body = "GET /a/smuggled HTTP/1.1\r\nHost: h\r\n\r\n".repeat(1_500);
    for _ in 0..50 {
        let mut caller = running.caller().await;
        let (first, rest) = body.split_at(1_000);
        let length = body.len();
        caller.send(format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{first}")).await;
        let mut version = base.accept().await;
        version.head().await;
        version.bytes(first.len()).await;
        // Often enough the proxy sees both at once: it takes the rest and has nowhere to send it.
        version.reset();
        caller.send(rest).await;
        let (head, _) = caller.answer().await;
        assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
        if field(&head, "connection").is_none() {
            let (head, _) = caller.call("GET /b/next HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await;
            assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
        }
        caller.gone().await;
        assert!(base.is_left_alone().await);
    }
    assert_eq!(running.counted("base").await.calls, 50);
}

#[tokio::test]
async fn a_version_that_answers_whole_with_an_error_keeps_its_connection() {
    let (running, base, new) = two().await;
    let mut caller = running.caller().await;
    let (mut version, mut at_base) = (None, None);
    for _ in 0..3 {
        caller.send(GET).await;
        let version = match &mut version {
            Some(version) => version,
            None => version.insert(new.accept().await),
        };
        version.head().await;
        version.send(BROKEN).await;
        let at_base = match &mut at_base {
            Some(at_base) => at_base,
            None => at_base.insert(base.accept().await),
        };
        at_base.head().await;
        at_base.send(ok("base")).await;
        assert_eq!(caller.answer().await.1, "base");
    }
}

#[tokio::test]
async fn a_body_larger_than_what_is_kept_is_not_sent_twice() {
    for limits in
        [Limits { kept_body: 4, ..Limits::default() }, Limits { kept_bodies: 4, ..Limits::default() }]
    {
        let running = start(limits);
        let (base, new) = (Scripted::new().await, Scripted::new().await);
        running.serve_new(&base, &new).await;
        let mut caller = running.caller().await;
        for (body, is_repeated) in [("four", true), ("five!", false), ("once", true)] {
            let length = body.len();
            caller
                .send(format!("PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{body}"))
                .await;
            let mut version = new.accept().await;
            version.head().await;
            assert_eq!(version.bytes(length).await, body);
            version.reset();
            if is_repeated {
                let mut at_base = base.accept().await;
                at_base.head().await;
                assert_eq!(at_base.bytes(length).await, body);
                at_base.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbase").await;
                assert_eq!(caller.answer().await.1, "base");
            } else {
                assert!(caller.answer().await.0.starts_with("HTTP/1.1 502 "));
                assert!(base.is_left_alone().await);
            }
        }
    }
}

#[tokio::test]
async fn repeated_call_does_not_send_100_continue_twice() {
    let (running, base, new) = two().await;
    let mut caller = running.caller().await;
    caller.send("PUT /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n").await;
    let mut version = new.accept().await;
    version.head().await;
    version.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(caller.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    caller.send("hello").await;
    assert_eq!(version.bytes(5).await, "hello");
    version.reset();
    let mut at_base = base.accept().await;
    at_base.head().await;
    assert_eq!(at_base.bytes(5).await, "hello");
    at_base.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    at_base.send(ok("once")).await;
    assert_eq!(caller.answer().await.1, "once");
}

#[tokio::test]
async fn mostly_failing_version_is_passed_over_until_probe_succeeds() {
    // Each thread looks at its own calls.
    let running = start_with(1, Limits::default());
    let (base, new) =
        (version("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase").await, Scripted::new().await);
    running.proxy.apply(&crate::world::table(1, base, new.at, 10_000)).await.unwrap();
    let mut caller = running.caller().await;
    for _ in 0..11 {
        caller.send(GET).await;
        let mut version = new.accept().await;
        version.head().await;
        version.reset();
        assert_eq!(caller.answer().await.1, "base");
    }
    for _ in 0..10 {
        for _ in 0..19 {
            assert_eq!(caller.call(GET).await.1, "base");
        }
        assert!(new.is_left_alone().await);
        caller.send(GET).await;
        let mut version = new.accept().await;
        version.head().await;
        version.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nnew").await;
        assert_eq!(caller.answer().await.1, "new");
    }
    // Eleven failures and ten good calls: of the last twenty no more than half failed.
    caller.send(GET).await;
    let mut version = new.accept().await;
    version.head().await;
    version.send(ok("new")).await;
    assert_eq!(caller.answer().await.1, "new");
    let counted = running.counted("new").await;
    assert_eq!((counted.calls, counted.repeated, counted.passed_over), (212, 11, 190));
    assert_eq!(counted.succeeded, 11);
}

#[tokio::test]
async fn header_routed_calls_are_repeated_but_excluded_from_split() {
    let running = start(Limits::default());
    let (base, new) =
        (version("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase").await, Scripted::new().await);
    let service = json!({
        "variations": [{"name": "base", "targets": [base.to_string()]}, {"name": "new", "targets": [new.target()]}],
        "shares": [10_000, 0],
        "header": {"name": "X-Variation", "values": {"n": "new"}},
    });
    running.serve(service).await;
    let mut caller = running.caller().await;
    caller.send("GET /a HTTP/1.1\r\nHost: h\r\nx-variation: n\r\n\r\n").await;
    let mut version = new.accept().await;
    version.head().await;
    version.reset();
    assert_eq!(caller.answer().await.1, "base");
    let counted = running.counted("new").await;
    assert_eq!((counted.calls, counted.repeated), (0, 0));
    let counted = running.counted_by_header("new").await;
    assert_eq!((counted.calls, counted.repeated, counted.failed[Failure::Died as usize]), (1, 1, 1));
    assert_eq!((running.counted("base").await.calls, running.counted_by_header("base").await.calls), (0, 0));
}

#[tokio::test]
async fn a_call_goes_to_the_next_target_where_one_refuses_connections() {
    let running = start(Limits::default());
    let (one, two, gone) = (Scripted::new().await, Scripted::new().await, Scripted::new().await);
    let targets = [one.target(), gone.target(), two.target()];
    running.serve(json!({"variations": [{"name": "base", "targets": targets}]})).await;
    drop(gone);
    let mut callers = (running.caller().await, running.caller().await);
    // Two of three turns come to the one behind the target that is gone.
    for (who, by) in [(0, &one), (0, &two), (0, &two)] {
        let caller = if who == 0 { &mut callers.0 } else { &mut callers.1 };
        caller.send(POST).await;
        let mut version = by.accept().await;
        version.head().await;
        version.bytes(5).await;
        version.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nup").await;
        assert_eq!(caller.answer().await.1, "up");
    }
    assert_eq!(running.counted("base").await.failed, [0; Failure::ALL.len()]);
}

#[tokio::test]
async fn a_connection_that_ends_as_the_call_is_sent_is_replaced_where_that_is_harmless() {
    let running = start_with(1, Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    caller.send(GET).await;
    let mut version = base.accept().await;
    version.head().await;
    version.send(ok("one")).await;
    caller.answer().await;
    // The version takes the next call and ends without a word, as it does when it ended just before. The call behind that goes out
    // over the same connection at once: one that was idle for longer would not be taken for it.
    caller.send([GET, POST].concat()).await;
    version.head().await;
    version.reset();
    let mut version = base.accept().await;
    version.head().await;
    version.send(ok("two")).await;
    assert_eq!(caller.answer().await.1, "two");
    assert_eq!(running.counted("base").await.sent_again, 1);

    // Nobody knows whether this one was carried out: it is not sent again.
    version.head().await;
    version.bytes(5).await;
    version.reset();
    assert!(caller.answer().await.0.starts_with("HTTP/1.1 502 "));
    assert!(base.is_left_alone().await);
    let counted = running.counted("base").await;
    assert_eq!((counted.sent_again, counted.failed[Failure::Died as usize]), (1, 1));

    // Of a version that had begun to answer it isn't asked again either.
    caller.send(GET).await;
    let mut version = base.accept().await;
    version.head().await;
    version.send(ok("three")).await;
    caller.answer().await;
    caller.send(GET).await;
    version.head().await;
    version.send("HTTP/1.1 200").await;
    version.end_sending().await;
    assert!(caller.answer().await.0.starts_with("HTTP/1.1 502 "));
    assert!(base.is_left_alone().await);
}

#[tokio::test]
async fn a_new_version_that_takes_too_long_costs_the_caller_time_and_no_answer() {
    let running = start(Limits { first_byte: LATER, ..Limits::default() });
    let (base, new) =
        (version("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase").await, Scripted::new().await);
    running.proxy.apply(&crate::world::table(1, base, new.at, 10_000)).await.unwrap();
    let mut caller = running.caller().await;
    caller.send(GET).await;
    let mut version = new.accept().await;
    assert_eq!(caller.answer().await.1, "base");
    version.gone().await;
    let counted = running.counted("new").await;
    assert_eq!((counted.repeated, counted.failed[Failure::TimedOut as usize]), (1, 1));
}
