//! What passes between a caller and a version, and what doesn't.

use proxy::Limits;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::world::{GET, Peer, Scripted, field, ok, read_head, start, table, version};

const BASE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase";
const BROKEN: &str = "HTTP/1.1 500 Broken\r\nContent-Length: 6\r\n\r\nbroken";

#[tokio::test]
async fn failing_new_version_affects_no_caller_and_is_counted_exactly() {
    let running = start(Limits::default());
    let (base, new) = (version(BASE).await, version(BROKEN).await);
    running.proxy.apply(&table(1, base, new, 10_000)).await.unwrap();
    let mut caller = TcpStream::connect(running.at).await.unwrap();
    for _ in 0..300 {
        caller.write_all(b"GET /a/b?c HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
        let head = read_head(&mut caller).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("X-Choirmaster-Version: base\r\n"), "{head}");
        let mut body = [0; 4];
        caller.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"base");
    }
    let counted = running.counted("new").await;
    assert_eq!((counted.calls, counted.repeated + counted.passed_over), (300, 300));
    assert!(counted.repeated >= 20, "{}", counted.repeated);
}

/// A call that the version gets, with its connection.
async fn reaches(running: &crate::world::Running, base: &Scripted, request: &str) -> (Peer, Peer, String) {
    let mut caller = running.caller().await;
    caller.send(request).await;
    let mut version = base.accept().await;
    let head = version.head().await;
    (caller, version, head)
}

#[tokio::test]
async fn fields_of_one_connection_stay_there_and_all_others_pass_in_their_order() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (mut caller, mut version, head) = reaches(
        &running,
        &base,
        "GET /a/x?y=1 HTTP/1.1\r\nHost: h\r\nX-First:  spaced \r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nProxy-Connection: close\r\nx-mixed-CASE: a\r\nX-Forwarded-For: 10.0.0.1\r\nX-Twice: 1\r\nX-Twice: 2\r\n\r\n",
    )
    .await;
    let passed = "GET /x?y=1 HTTP/1.1\r\nHost: h\r\nX-First:  spaced \r\nx-mixed-CASE: a\r\nX-Twice: 1\r\nX-Twice: 2\r\n\
                  X-Forwarded-For: 10.0.0.1, 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Prefix: /a\r\nTE: trailers\r\n\r\n";
    assert_eq!(head, passed);
    version
        .send("HTTP/1.1 203 Fine so\r\nX-A: 1\r\nConnection: X-B\r\nX-B: 2\r\nKeep-Alive: timeout=5\r\nx-c: 3\r\nContent-Length: 0\r\n\r\n")
        .await;
    let answer = caller.head().await;
    let passed = "HTTP/1.1 203 Fine so\r\nX-A: 1\r\nx-c: 3\r\nContent-Length: 0\r\nX-Choirmaster-Version: base\r\n\r\n";
    assert_eq!(answer, passed);
}

#[tokio::test]
async fn a_target_that_is_a_url_decides_the_host_that_passes() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    for (target, passed) in [("http://real:81/a/x?y", "GET /x?y "), ("HTTP://real:81/a", "GET / ")] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: other\r\nX-A: b\r\nConnection: close\r\n\r\n");
        let (mut caller, mut version, head) = reaches(&running, &base, &request).await;
        assert!(head.starts_with(passed), "{head}");
        assert_eq!(head.to_ascii_lowercase().matches("\r\nhost:").count(), 1, "{head}");
        assert_eq!(field(&head, "host"), Some("real:81"));
        version.send("HTTP/1.1 204 None\r\nConnection: close\r\n\r\n").await;
        assert!(caller.rest().await.starts_with("HTTP/1.1 204 "));
    }
}

#[tokio::test]
async fn a_path_without_the_services_name_is_a_path_still() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    for (target, passed) in [("/a", "/"), ("/a?b=/c", "/?b=/c"), ("/a/", "/"), ("/a//b", "//b")] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let (mut caller, mut version, head) = reaches(&running, &base, &request).await;
        assert!(head.starts_with(&format!("GET {passed} HTTP/1.1\r\n")), "{head}");
        version.send("HTTP/1.1 204 None\r\nConnection: close\r\n\r\n").await;
        caller.rest().await;
    }
}

#[tokio::test]
async fn answers_without_a_body_end_with_their_head_whatever_length_they_name() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    caller.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut version = base.accept().await;
    version.head().await;
    version.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await;
    assert_eq!(field(&caller.head().await, "content-length"), Some("1000"));
    for answer in ["HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", "HTTP/1.1 204 None\r\n\r\n"] {
        caller.send(GET).await;
        // The same connections, on both sides.
        version.head().await;
        version.send(answer).await;
        assert_eq!(caller.head().await[..13], answer[..13]);
    }
    let (_, body) = {
        caller.send(GET).await;
        version.head().await;
        version.send(ok("and on")).await;
        caller.answer().await
    };
    assert_eq!(body, "and on");
}

#[tokio::test]
async fn http10_caller_gets_connection_close_unless_keep_alive_requested() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (mut caller, mut version, head) = reaches(&running, &base, "GET /a HTTP/1.0\r\n\r\n").await;
    assert!(head.starts_with("GET / HTTP/1.0\r\n"), "{head}");
    // Told to go on and answered in one piece: only the answer is for this caller.
    version.send(format!("HTTP/1.1 100 Continue\r\n\r\n{}", ok("old"))).await;
    let answer = caller.rest().await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\nold"), "{answer}");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");

    let asks = "GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
    let (mut caller, mut version, _) = reaches(&running, &base, asks).await;
    version.send(ok("kept")).await;
    let (head, body) = caller.answer().await;
    assert_eq!((field(&head, "connection"), body.as_str()), (Some("keep-alive"), "kept"));
    let (head, _) = caller.call("GET /nowhere HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.0 404 ") && field(&head, "connection") == Some("keep-alive"), "{head}");
}

#[tokio::test]
async fn response_without_length_ends_at_close_and_truncation_is_error() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (mut caller, mut version, _) = reaches(&running, &base, GET).await;
    version.send("HTTP/1.1 200 OK\r\n\r\nall of it").await;
    version.end_sending().await;
    let answer = caller.rest().await;
    assert!(
        answer.contains("\r\nConnection: close\r\n") && answer.ends_with("\r\n\r\nall of it"),
        "{answer}"
    );

    let (mut caller, mut version, _) = reaches(&running, &base, GET).await;
    version.send("HTTP/1.1 200 OK\r\n\r\nhalf of").await;
    caller.head().await;
    assert_eq!(caller.bytes(7).await, "half of");
    version.reset();
    assert!(caller.is_reset().await);
    let counted = running.counted("base").await;
    assert_eq!((counted.calls, counted.broken_off, counted.succeeded), (2, 1, 1));
}

#[tokio::test]
async fn an_answer_that_ends_too_soon_ends_the_callers_connection_too() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    for begun in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Trailer: yes\r\n",
    ] {
        let (mut caller, mut version, _) = reaches(&running, &base, GET).await;
        version.send(begun).await;
        version.end_sending().await;
        let answer = caller.rest().await;
        assert!(begun.ends_with(&answer[answer.find("\r\n\r\n").unwrap()..]), "{answer}");
    }
    assert_eq!(running.counted("base").await.broken_off, 3);
    running.settled().await;
}

#[tokio::test]
async fn calls_that_come_at_once_are_answered_in_their_order() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let call = |call| format!("\r\nPOST /a/{call} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n{call:03}");
    let calls: Vec<String> = (0..20).map(call).collect();
    let mut caller = running.caller().await;
    caller.send(calls.concat()).await;
    let mut version = base.accept().await;
    for call in 0..20 {
        let head = version.head().await;
        assert!(head.starts_with(&format!("POST /{call} ")), "{head}");
        assert_eq!(version.bytes(3).await, format!("{call:03}"));
        version.send(ok(&format!("answer {call}"))).await;
    }
    for call in 0..20 {
        assert_eq!(caller.answer().await.1, format!("answer {call}"));
    }
}

#[tokio::test]
async fn expect_continue_is_answered_by_the_version() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let request = "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let (mut caller, mut version, head) = reaches(&running, &base, request).await;
    assert_eq!(field(&head, "expect"), Some("100-continue"));
    version.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(caller.head().await, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
    assert_eq!(caller.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    caller.send("hello").await;
    assert_eq!(version.bytes(5).await, "hello");
    version.send(ok("done")).await;
    assert_eq!(caller.answer().await.1, "done");

    // Told no: the answer says that the connection ends, since nobody knows whether the body still comes.
    caller.send(request).await;
    version.head().await;
    version.send("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n").await;
    let answer = caller.rest().await;
    assert!(answer.starts_with("HTTP/1.1 417 No\r\n"), "{answer}");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    running.settled().await;
}

#[tokio::test]
async fn a_call_for_nobody_is_told_so_and_the_connection_stays() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    for nowhere in
        ["GET /b HTTP/1.1\r\nHost: h\r\n\r\n", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nGET "]
    {
        let (head, _) = caller.call(nowhere).await;
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        assert_eq!(
            (field(&head, "x-choirmaster-error"), field(&head, "connection")),
            (Some("no_service"), None)
        );
    }
    // A body that isn't there yet may never come.
    let (head, _) = caller.call("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n").await;
    assert_eq!(field(&head, "connection"), Some("close"));
    for (request, status) in [
        ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", "405"),
        ("GET /a HTTP/3.0\r\nHost: h\r\n\r\n", "505"),
        ("GET * HTTP/1.1\r\nHost: h\r\n\r\n", "400"),
        ("GET ftp://h/a HTTP/1.1\r\nHost: h\r\n\r\n", "400"),
        ("\x16\x03\x01\x02\0\x01\0\x01", "400"),
    ] {
        let mut caller = running.caller().await;
        caller.send(request).await;
        let answer = caller.rest().await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert!(base.is_left_alone().await);
}

#[tokio::test]
async fn a_caller_that_sends_no_more_still_gets_its_answer() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (mut caller, mut version, _) = reaches(&running, &base, GET).await;
    caller.end_sending().await;
    version.send(ok("late")).await;
    assert!(caller.rest().await.ends_with("\r\n\r\nlate"));
    running.settled().await;
    assert_eq!(running.counted("base").await.succeeded, 1);
}

#[tokio::test]
async fn a_caller_that_leaves_while_its_version_works_leaves_nothing_behind() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    // Before an answer, within one, and within the body of the call.
    let (caller, mut version, _) = reaches(&running, &base, GET).await;
    caller.reset();
    version.gone().await;
    let (mut caller, mut version, _) = reaches(&running, &base, GET).await;
    version.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").await;
    caller.head().await;
    caller.reset();
    version.gone().await;
    let sends = "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf";
    let (caller, mut version, _) = reaches(&running, &base, sends).await;
    drop(caller);
    version.gone().await;
    running.settled().await;
    let counted = running.counted("base").await;
    assert_eq!((counted.calls, counted.callers_gone, counted.succeeded), (3, 3, 0));
}

#[tokio::test]
async fn a_caller_without_the_cookie_is_given_one_that_keeps_its_version() {
    let running = start(Limits::default());
    let (base, new) = (version(BASE).await, version("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew").await);
    let service = json!({
        "variations": [{"name": "base", "targets": [base.to_string()]}, {"name": "new", "targets": [new.to_string()]}],
        "shares": [5_000, 5_000],
        "sticky": {"cookie": "cm_a"},
    });
    running.serve(service).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..40 {
        let mut caller = running.caller().await;
        let (head, first) = caller.call("GET /a HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let set = field(&head, "set-cookie").unwrap();
        assert!(set.starts_with("cm_a=") && set.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{set}");
        let cookie = set.split(';').next().unwrap();
        for _ in 0..5 {
            let request = format!("GET /a HTTP/1.1\r\nHost: h\r\nCookie: x=y; {cookie}\r\n\r\n");
            let (head, body) = caller.call(request).await;
            assert_eq!((field(&head, "set-cookie"), &body), (None, &first));
        }
        seen.insert(first);
    }
    assert_eq!(seen.len(), 2, "40 callers were all given to one version");
}

#[tokio::test]
async fn a_connection_to_a_version_that_ended_meanwhile_is_not_used() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    for call in 0..5 {
        // Nothing here may be repeated, so that a connection that is gone would show.
        caller.send("POST /a HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let mut version = base.accept().await;
        version.head().await;
        version.send(ok(&call.to_string())).await;
        assert_eq!(caller.answer().await.1, call.to_string());
        drop(version);
    }
    assert_eq!(running.counted("base").await.sent_again, 0);
}
