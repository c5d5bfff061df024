use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use proxy::Limits;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    deadline::DEADLINE,
    http2_world::{
        call, connect, counted, counted_since, echo, give, h2_version, read, read_chunks, request,
        speaking_h2c, until, whole,
    },
    ports::free_address,
    world::{LATER, read_head, start, table, version},
};

const BASE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase";
const BROKEN: &str = "HTTP/1.1 500 Broken\r\nContent-Length: 6\r\n\r\nbroken";

/// Answers with 200 and the whole body that came.
async fn give_back(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (head, body) = request.into_parts();
    let Ok((body, trailers)) = read(body).await else { return };
    let mut answer = Response::builder().header("x-path", head.uri.path());
    if let Some(te) = head.headers.get("te") {
        answer = answer.header("x-te", te);
    }
    let Ok(mut stream) = respond.send_response(answer.body(()).unwrap(), false) else { return };
    if give(&mut stream, body.into(), false).await.is_ok() {
        let _ = stream.send_trailers(trailers.unwrap_or_default());
    }
}

async fn say_base(_: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    if let Ok(mut stream) = respond.send_response(Response::new(()), false) {
        let _ = stream.send_data("base".into(), true);
    }
}

#[tokio::test]
async fn one_port_takes_calls_of_both_protocols_and_a_version_gets_them_alike() {
    let running = start(Limits::default());
    let at = echo().await;
    running.proxy.apply(&table(1, at, at, 0)).await.unwrap();
    let caller = connect(running.at).await;
    let mut asked = request("GET", "/a/b%20c?d=e&f");
    asked.headers_mut().append("cookie", "one=1".parse().unwrap());
    asked.headers_mut().append("cookie", "two=2".parse().unwrap());
    asked.headers_mut().append("x-mine", "first".parse().unwrap());
    asked.headers_mut().append("x-mine", "second".parse().unwrap());
    asked.headers_mut().append("x-forwarded-for", "10.0.0.1".parse().unwrap());
    asked.headers_mut().append("te", "trailers".parse().unwrap());
    let answer = call(&caller, asked, "").await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("x-choirmaster-version"), Some("base"));
    assert_eq!(answer.field("x-is"), Some("echo"));
    let got = answer.text();
    assert!(got.starts_with("GET /b%20c?d=e&f HTTP/1.1\r\nHost: here.example\r\n"), "{got}");
    for line in [
        "Cookie: one=1; two=2",
        "x-mine: first",
        "x-mine: second",
        "x-forwarded-for: 10.0.0.1, 127.0.0.1",
        "x-forwarded-proto: http",
        "x-forwarded-prefix: /a",
        "te: trailers",
    ] {
        assert_eq!(got.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line} in {got}");
    }
    assert!(!got.to_lowercase().contains("transfer-encoding"), "{got}");

    let mut plain = TcpStream::connect(running.at).await.unwrap();
    plain.write_all(b"GET /a/b HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
    assert!(read_head(&mut plain).await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_call_that_begins_like_the_preface_is_one_of_http1_all_the_same() {
    let running = start(Limits::default());
    let at = echo().await;
    running.proxy.apply(&table(1, at, at, 0)).await.unwrap();
    let mut plain = TcpStream::connect(running.at).await.unwrap();
    plain.set_nodelay(true).unwrap();
    for part in ["P", "R", "I /a HTTP/1.1\r\nHo", "st: here\r\n\r\n"] {
        plain.write_all(part.as_bytes()).await.unwrap();
        plain.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(read_head(&mut plain).await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));

    let mut cut = TcpStream::connect(running.at).await.unwrap();
    cut.write_all(b"PRI * HTTP/2.0\r\n\r\nno preface\r\n\r\n").await.unwrap();
    assert!(read_head(&mut cut).await.unwrap().starts_with("HTTP/1.1 505 "));
}

#[tokio::test]
async fn a_thousand_calls_at_once_on_one_connection_are_all_answered_and_counted() {
    let running = start(Limits::default());
    let base = version(BASE).await;
    running.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let caller = connect(running.at).await;
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move { call(&caller, request("GET", "/a"), "").await })
        })
        .collect();
    for made in calls {
        assert_eq!(made.await.unwrap().unwrap().text(), "base");
    }
    assert_eq!(counted(&running.proxy, "base").await.calls, 1_000);
}

#[tokio::test]
async fn a_new_version_that_fails_each_call_is_felt_by_no_caller_of_http2() {
    let running = start(Limits::default());
    let refusing = h2_version(async |_, mut respond: SendResponse<Bytes>| {
        respond.send_reset(Reason::REFUSED_STREAM);
    });
    let breaking = h2_version(async |_, mut respond: SendResponse<Bytes>| {
        respond.send_reset(Reason::INTERNAL_ERROR);
    });
    let failing = h2_version(async |_, mut respond: SendResponse<Bytes>| {
        let _ = respond.send_response(Response::builder().status(503).body(()).unwrap(), true);
    });
    let base = h2_version(say_base).await;
    let news = [
        (refusing.await, "h2c", "refused"),
        (breaking.await, "h2c", "died"),
        (failing.await, "h2c", "status"),
        (version(BROKEN).await, "http1", "status"),
        (version(BASE).await, "h2c", "nonsense"),
        (free_address(), "h2c", "refused"),
    ];
    let mut before = call_metrics::Tally::default();
    for (generation, (new, protocol, how)) in (1..).zip(news) {
        let h2c: &[&str] = if protocol == "h2c" { &["base", "new"] } else { &["base"] };
        let form = speaking_h2c(table(generation, base, new, 10_000), h2c);
        running.proxy.apply(&form).await.unwrap();
        let caller = connect(running.at).await;
        for _ in 0..50 {
            let answer = call(&caller, request("GET", "/a"), "").await.unwrap();
            assert_eq!((answer.status, answer.text()), (200, "base"), "{how}");
            assert_eq!(answer.field("x-choirmaster-version"), Some("base"));
        }
        let tally = counted_since(&running.proxy, "new", &mut before).await;
        assert_eq!((tally.calls, tally.repeated + tally.passed_over), (50, 50), "{how}: {tally:?}");
        let of_kind = traffic::Failure::ALL.iter().position(|kind| kind.name() == how).unwrap();
        assert_eq!(tally.failed[of_kind], tally.repeated, "{how}: {tally:?}");
    }
}

#[tokio::test]
async fn what_may_have_been_carried_out_is_not_sent_again_and_what_was_refused_is() {
    let running = start(Limits::default());
    let base = h2_version(say_base).await;
    let breaking = h2_version(async |request: Request<RecvStream>, mut respond: SendResponse<Bytes>| {
        read(request.into_body()).await.unwrap();
        respond.send_reset(Reason::INTERNAL_ERROR);
    });
    let form = speaking_h2c(table(1, base, breaking.await, 10_000), &["base", "new"]);
    running.proxy.apply(&form).await.unwrap();
    let caller = connect(running.at).await;
    let answer = call(&caller, request("POST", "/a"), "once").await.unwrap();
    assert_eq!((answer.status, answer.field("x-choirmaster-error")), (502, Some("died")));

    let refusing = h2_version(async |request: Request<RecvStream>, mut respond: SendResponse<Bytes>| {
        let (body, _) = read(request.into_body()).await.unwrap();
        assert_eq!(body, b"twice");
        respond.send_reset(Reason::REFUSED_STREAM);
    });
    let base = h2_version(give_back).await;
    let form = speaking_h2c(table(2, base, refusing.await, 10_000), &["base", "new"]);
    running.proxy.apply(&form).await.unwrap();
    let answer = call(&caller, request("POST", "/a"), "twice").await.unwrap();
    assert_eq!((answer.status, answer.text()), (200, "twice"));
    assert_eq!(counted(&running.proxy, "new").await.repeated, 1);
}

/// A version that says farewell on each connection after a few calls.
async fn restless(executed: Arc<AtomicU32>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let executed = Arc::clone(&executed);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut left = 7;
                while let Some(Ok((request, respond))) = connection.accept().await {
                    executed.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(give_back(request, respond));
                    left -= 1;
                    if left == 0 {
                        connection.graceful_shutdown();
                    }
                }
            });
        }
    });
    at
}

#[tokio::test]
async fn repeated_goaway_neither_loses_nor_repeats_a_call() {
    let running = start(Limits::default());
    let executed = Arc::default();
    let at = restless(Arc::clone(&executed)).await;
    running.proxy.apply(&speaking_h2c(table(1, at, at, 0), &["base", "new"])).await.unwrap();
    let callers: Vec<_> = (0..8)
        .map(|of| {
            tokio::spawn(async move {
                let caller = connect(running.at).await;
                for number in 0..50 {
                    let body = format!("{of} {number}");
                    let answer = call(&caller, request("POST", "/a"), body.clone()).await.unwrap();
                    assert_eq!((answer.status, answer.text()), (200, &*body));
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(executed.load(Ordering::Relaxed), 400);
}

#[tokio::test]
async fn a_drain_ends_connections_once_their_calls_have_ended_and_loses_none() {
    let running = start(Limits::default());
    let go = Arc::new(tokio::sync::Notify::new());
    let waits = Arc::clone(&go);
    let base = h2_version(move |_, mut respond: SendResponse<Bytes>| {
        let waits = Arc::clone(&waits);
        async move {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            stream.send_data("be".into(), false).unwrap();
            waits.notified().await;
            stream.send_data("gun".into(), true).unwrap();
        }
    });
    let base = base.await;
    running.proxy.apply(&speaking_h2c(table(1, base, base, 0), &["base", "new"])).await.unwrap();
    let stream = TcpStream::connect(running.at).await.unwrap();
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut ready = send.clone().ready().await.unwrap();
    let (answer, _) = ready.send_request(request("GET", "/a"), true).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(running.proxy.drain(Duration::ZERO).await, 1);
    let refused = async || send.clone().ready().await.is_err();
    until("the caller is told that the connection ends", refused).await;
    assert_eq!(running.proxy.connections(), 1);
    go.notify_one();
    assert_eq!(whole(answer).await.unwrap().text(), "begun");
    // The connection ends in order: without an error.
    connection.await.unwrap().unwrap();
    assert_eq!(running.proxy.drain(DEADLINE).await, 0);
}

#[tokio::test]
async fn bodies_of_any_size_and_trailers_pass_between_callers_and_versions_of_http2() {
    let running = start(Limits::default());
    let at = h2_version(give_back).await;
    running.proxy.apply(&speaking_h2c(table(1, at, at, 0), &["base", "new"])).await.unwrap();
    let caller = connect(running.at).await;
    let large: Bytes = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut ready = caller.ready().await.unwrap();
    let mut asked = request("POST", "/a/large");
    asked.headers_mut().append("te", "trailers".parse().unwrap());
    let (answer, mut stream) = ready.send_request(asked, false).unwrap();
    let body = large.clone();
    tokio::spawn(async move {
        give(&mut stream, body, false).await.unwrap();
        stream
            .send_trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]))
            .unwrap();
    });
    let answer = whole(answer.await.unwrap()).await.unwrap();
    assert!(answer.body == large, "{} bytes", answer.body.len());
    assert_eq!(answer.trailers.as_ref().unwrap().get("x-sum").unwrap(), "7");
    assert_eq!((answer.field("x-path"), answer.field("x-te")), (Some("/large"), Some("trailers")));
}

#[tokio::test]
async fn http1_caller_reaches_http2_version_and_reuses_connection() {
    let running = start(Limits::default());
    let at = h2_version(give_back).await;
    running.proxy.apply(&speaking_h2c(table(1, at, at, 0), &["base", "new"])).await.unwrap();
    let mut caller = TcpStream::connect(running.at).await.unwrap();
    for _ in 0..3 {
        caller
            .write_all(b"POST /a/x HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello")
            .await
            .unwrap();
        let head = read_head(&mut caller).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains("x-path: /x\r\n") && head.contains("x-choirmaster-version: base\r\n"),
            "{head}"
        );
        assert_eq!(read_chunks(&mut caller).await, b"5\r\nhello\r\n0\r\n\r\n");
        let chunked = "POST /a/y HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n";
        caller.write_all(chunked.as_bytes()).await.unwrap();
        read_head(&mut caller).await.unwrap();
        let body = String::from_utf8(read_chunks(&mut caller).await).unwrap();
        assert!(body.ends_with("0\r\nx-sum: 7\r\n\r\n"), "{body}");
    }
    let mut old = TcpStream::connect(running.at).await.unwrap();
    old.write_all(b"POST /a HTTP/1.0\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    let mut all = String::new();
    old.read_to_string(&mut all).await.unwrap();
    assert!(all.starts_with("HTTP/1.0 200 OK\r\n") && all.ends_with("\r\n\r\nok"), "{all}");
}

#[tokio::test]
async fn trailers_pass_both_ways_between_a_caller_of_http2_and_a_version_of_http1() {
    let running = start(Limits::default());
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 9\r\n\r\n";
    let (trailing, echoing) = (version(answer).await, echo().await);
    running.proxy.apply(&table(1, trailing, trailing, 0)).await.unwrap();
    let caller = connect(running.at).await;
    let answer = call(&caller, request("GET", "/a"), "").await.unwrap();
    assert_eq!(answer.text(), "body");
    assert_eq!(answer.field("transfer-encoding"), None);
    let trailers = answer.trailers.unwrap();
    assert_eq!((trailers.get("x-sum").unwrap().as_bytes(), trailers.len()), (b"9".as_slice(), 1));

    running.proxy.apply(&table(2, echoing, echoing, 0)).await.unwrap();
    let mut ready = caller.ready().await.unwrap();
    let (answer, mut stream) = ready.send_request(request("POST", "/a"), false).unwrap();
    stream.send_data("data".into(), false).unwrap();
    stream.send_trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())])).unwrap();
    let answer = whole(answer.await.unwrap()).await.unwrap();
    assert!(answer.text().ends_with("\r\n4\r\ndata\r\n0\r\nx-sum: 7\r\n\r\n"), "{}", answer.text());
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_whole_answer_for_a_caller_of_http2() {
    let running = start(Limits::default());
    let cut = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nno chunk";
    let base = version(cut).await;
    running.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let caller = connect(running.at).await;
    let error = call(&caller, request("GET", "/a"), "").await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    assert_eq!(counted(&running.proxy, "base").await.broken_off, 1);
}

#[tokio::test]
async fn call_cancelled_by_caller_is_cancelled_at_version() {
    let running = start(Limits::default());
    let (told, mut taken_back) = tokio::sync::mpsc::unbounded_channel();
    let base = h2_version(move |_, mut respond: SendResponse<Bytes>| {
        let told = told.clone();
        async move {
            told.send(None).unwrap();
            let reason = std::future::poll_fn(|cx| respond.poll_reset(cx)).await.unwrap();
            told.send(Some(reason)).unwrap();
        }
    });
    let base = base.await;
    running.proxy.apply(&speaking_h2c(table(1, base, base, 0), &["base", "new"])).await.unwrap();
    let caller = connect(running.at).await;
    let mut ready = caller.ready().await.unwrap();
    let (answer, mut stream) = ready.send_request(request("GET", "/a"), false).unwrap();
    assert_eq!(taken_back.recv().await.unwrap(), None);
    stream.send_reset(Reason::CANCEL);
    drop(answer);
    assert_eq!(taken_back.recv().await.unwrap(), Some(Reason::CANCEL));
    let table = running.proxy.table();
    let idle = async || table.services()[0].versions()[0].in_flight() == 0;
    until("the call's place is free", idle).await;
}

#[tokio::test]
async fn caller_cancelling_repeatedly_loses_only_its_own_connection() {
    let running = start(Limits { resets: 50, ..Limits::default() });
    let base = h2_version(async |_, mut respond: SendResponse<Bytes>| {
        let _ = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
    });
    let (base, quick) = (base.await, version(BASE).await);
    let mut form = serde_json::to_value(speaking_h2c(table(1, base, base, 0), &["base", "new"])).unwrap();
    let service =
        serde_json::json!({"name": "b", "variations": [{"name": "base", "targets": [quick.to_string()]}]});
    form["services"].as_array_mut().unwrap().push(service);
    running.proxy.apply(&serde_json::from_value(form).unwrap()).await.unwrap();

    let stream = TcpStream::connect(running.at).await.unwrap();
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let others = connect(running.at).await;
    for _ in 0..10_000 {
        let Ok(mut ready) = send.clone().ready().await else { break };
        let Ok((answer, mut stream)) = ready.send_request(request("GET", "/a"), true) else { break };
        tokio::task::yield_now().await;
        stream.send_reset(Reason::CANCEL);
        drop(answer);
    }
    let error = connection.await.unwrap().unwrap_err();
    // Who goes on sending may not get to read why.
    assert!(error.is_io() || error.reason() == Some(Reason::ENHANCE_YOUR_CALM), "{error}");
    assert_eq!(call(&others, request("GET", "/b"), "").await.unwrap().text(), "base");
    let table = running.proxy.table();
    let idle = async || table.services()[0].versions()[0].in_flight() == 0;
    until("all places are free", idle).await;
}

#[tokio::test]
async fn calls_above_http2_stream_limit_are_refused_as_retryable() {
    let running = start(Limits { streams: 10, ..Limits::default() });
    let go = Arc::new(tokio::sync::Notify::new());
    let waits = Arc::clone(&go);
    let base = h2_version(move |request, respond| {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            waits.notify_one();
            say_base(request, respond).await;
        }
    });
    let base = base.await;
    running.proxy.apply(&speaking_h2c(table(1, base, base, 0), &["base", "new"])).await.unwrap();
    let stream = TcpStream::connect(running.at).await.unwrap();
    // It sends its calls before it hears of the limit.
    let (send, connection) =
        h2::client::Builder::new().initial_max_send_streams(30).handshake::<_, Bytes>(stream).await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..30 {
        let (answer, _) = send.clone().send_request(request("GET", "/a"), true).unwrap();
        answers.push(tokio::spawn(answer));
    }
    tokio::spawn(connection);
    let (mut answered, mut refused) = (0, 0);
    for (at, answer) in answers.into_iter().enumerate().rev() {
        if at < 10 {
            go.notify_one();
        }
        match answer.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) if error.reason() == Some(Reason::REFUSED_STREAM) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((answered, refused), (10, 20));
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused_and_the_connection_goes_on() {
    let running = start(Limits::default());
    let base = version(BASE).await;
    running.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let caller = connect(running.at).await;
    let mut large = request("GET", "/a");
    large.headers_mut().append("x-large", "a".repeat(70_000).parse().unwrap());
    assert_eq!(call(&caller, large, "").await.unwrap().status, 431);
    let mut many = request("GET", "/a");
    for _ in 0..101 {
        many.headers_mut().append("x-many", "1".parse().unwrap());
    }
    let refused = call(&caller, many, "").await.unwrap();
    assert_eq!((refused.status, refused.field("x-choirmaster-error")), (431, Some("refused")));
    assert_eq!(call(&caller, request("GET", "/none"), "").await.unwrap().status, 404);
    let without_body = call(&caller, request("HEAD", "/none"), "").await.unwrap();
    assert_eq!((without_body.status, without_body.text()), (404, ""));
    assert_eq!(call(&caller, request("GET", "/a"), "").await.unwrap().text(), "base");
}

#[tokio::test]
async fn two_lengths_never_reach_a_version() {
    let running = start(Limits::default());
    let base = echo().await;
    running.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let caller = connect(running.at).await;
    let mut two = request("POST", "/a");
    two.headers_mut().append("content-length", "4".parse().unwrap());
    two.headers_mut().append("content-length", "40".parse().unwrap());
    match call(&caller, two, "body").await {
        Ok(answer) => assert_eq!(answer.status, 400),
        Err(error) => assert_eq!(error.reason(), Some(Reason::PROTOCOL_ERROR)),
    }
    assert_eq!(counted(&running.proxy, "base").await.calls, 0);
}

#[tokio::test]
async fn a_caller_that_takes_nothing_of_its_answer_keeps_no_place() {
    let running = start(Limits { body_idle: Duration::from_millis(600), ..Limits::default() });
    let base = h2_version(async |_, mut respond: SendResponse<Bytes>| {
        if let Ok(mut stream) = respond.send_response(Response::new(()), false) {
            let _ = give(&mut stream, Bytes::from(vec![7; 2_000_000]), true).await;
        }
    });
    let base = base.await;
    running.proxy.apply(&speaking_h2c(table(1, base, base, 0), &["base", "new"])).await.unwrap();
    let caller = connect(running.at).await;
    let mut ready = caller.clone().ready().await.unwrap();
    let (answer, _) = ready.send_request(request("GET", "/a"), true).unwrap();
    let answer = answer.await.unwrap();
    let table = running.proxy.table();
    let idle = async || table.services()[0].versions()[0].in_flight() == 0;
    until("the place is free", idle).await;
    let error = read_unreleased(answer.into_body()).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::CANCEL));
    // The version has done nothing wrong.
    let counted = counted(&running.proxy, "base").await;
    assert_eq!((counted.calls, counted.broken_off, counted.callers_gone), (1, 0, 1));
}

/// Reads what came without giving room for more.
async fn read_unreleased(mut body: RecvStream) -> Result<(), h2::Error> {
    while let Some(data) = body.data().await {
        data?;
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_called_ends_in_order_after_the_idle_time() {
    let running = start(Limits { idle: LATER, ..Limits::default() });
    let base = version(BASE).await;
    running.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let stream = TcpStream::connect(running.at).await.unwrap();
    let (send, connection) = h2::client::handshake::<_>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    assert_eq!(call(&send, request("GET", "/a"), "").await.unwrap().text(), "base");
    connection.await.unwrap().unwrap();
    until("no connection is left", async || running.proxy.connections() == 0).await;
}

#[tokio::test]
async fn interim_answers_pass_in_front_of_the_answer() {
    let running = start(Limits::default());
    let base = version(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase",
    )
    .await;
    running.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let mut ready = connect(running.at).await.ready().await.unwrap();
    let (mut answer, _) = ready.send_request(request("GET", "/a"), true).unwrap();
    let early = std::future::poll_fn(|cx| answer.poll_informational(cx)).await.unwrap().unwrap();
    assert_eq!((early.status().as_u16(), early.headers()["link"].as_bytes()), (103, b"</a.css>".as_slice()));
    assert_eq!(whole(answer.await.unwrap()).await.unwrap().text(), "base");
}
