//! What is limited for callers of HTTP/1.1 is limited for those of HTTP/2, too:
//!
//! | limit | HTTP/1.1 | HTTP/2 |
//! |---|---|---|
//! | `head_bytes`, `head_fields` | 431 | 431; a head far beyond is refused by the protocol (`http2::heads_that_are_too_large…`) |
//! | `head_time` | 408 | 408 within what every connection begins with; behind that, a head in parts is no call yet: `idle` ends its connection |
//! | `idle` | closed | told, then closed (`http2::a_connection_on_which_nothing_is_called…`) |
//! | `body_idle`, the caller sends nothing | 408, or cut off where the answer has begun | the same, of the one call |
//! | `body_idle`, the caller takes nothing | cut off, and no fault of the version | the same, of the one call |
//! | `body_idle`, the version sends nothing more | cut off, and its fault | the same, of the one call |
//! | `connect`, at most three targets that don't even refuse | 502 | 502 |
//! | `first_byte` | 504 | 504 |
//! | `in_flight`, `queue`, `queue_time` | 503 | 503, the same places |
//! | `kept_body`, `kept_bodies` | not repeated | not repeated, the same room |
//! | `connections` | not accepted | the same; `streams` and `resets` beside it (`http2::more_calls_at_once…`, `…takes_back_call_after_call…`) |
//! | `tunnel_idle` | closed | there are none |

use std::net::SocketAddr;

use bytes::Bytes;
use call_metrics::Tally;
use h2::{Reason, client::ResponseFuture, server::SendResponse};
use http::Response;
use proxy::{Limits, form::TableForm};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use traffic::Failure;

use crate::{
    http2_world::{call, connect, counted, h2_version, request, speaking_h2c, until, whole},
    limits::Silent,
    world::{LATER, NEVER, Peer, Running, SOON, Scripted, ok, start, start_with, table, version},
};

const BASE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase";
const BROKEN: &str = "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n";

/// Nobody but the caller is waited for with a short time limit.
fn slow_callers() -> Limits {
    Limits { body_idle: SOON, first_byte: NEVER, ..Limits::default() }
}

/// A version that reads its calls and never answers.
async fn silent_h2c() -> std::net::SocketAddr {
    h2_version(async |mut request: http::Request<h2::RecvStream>, _respond: SendResponse<Bytes>| {
        while let Some(Ok(_)) = request.body_mut().data().await {}
        std::future::pending::<()>().await;
    })
    .await
}

/// A call that has sent half of its body.
async fn half_sent(running: &Running) -> (ResponseFuture, h2::SendStream<Bytes>) {
    let mut ready = connect(running.at).await.ready().await.unwrap();
    let (answer, mut body) = ready.send_request(request("PUT", "/a"), false).unwrap();
    body.send_data("half".into(), false).unwrap();
    (answer, body)
}

fn only_the_caller(counted: &Tally) {
    assert_eq!(
        (counted.calls, counted.callers_gone, counted.broken_off, counted.failed),
        (1, 1, 0, [0; Failure::ALL.len()])
    );
}

fn of_either_protocol(form: TableForm, is_h2c: bool) -> TableForm {
    if is_h2c { speaking_h2c(form, &["base", "new"]) } else { form }
}

#[tokio::test]
async fn stalled_request_body_gets_408_without_blaming_the_version() {
    for is_h2c in [false, true] {
        let running = start(slow_callers());
        let plain = Scripted::new().await;
        let at = if is_h2c { silent_h2c().await } else { plain.at };
        running.proxy.apply(&of_either_protocol(table(1, at, at, 0), is_h2c)).await.unwrap();
        let (answer, _body) = half_sent(&running).await;
        let answer = answer.await.unwrap();
        assert_eq!(answer.status().as_u16(), 408);
        let answer = whole(answer).await.unwrap();
        assert!(answer.text().contains("stood still for too long"), "{}", answer.text());
        until("the place is free", async || {
            running.proxy.table().services()[0].versions()[0].in_flight() == 0
        })
        .await;
        only_the_caller(&counted(&running.proxy, "base").await);
    }
}

#[tokio::test]
async fn a_caller_of_http1_before_a_version_of_http2_is_no_more_waited_for() {
    let running = start(slow_callers());
    let at = silent_h2c().await;
    running.proxy.apply(&speaking_h2c(table(1, at, at, 0), &["base", "new"])).await.unwrap();
    let mut caller = running.caller().await;
    caller.send("PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf").await;
    let answer = caller.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    running.settled().await;
    only_the_caller(&counted(&running.proxy, "base").await);
}

#[tokio::test]
async fn stalled_http2_body_after_response_head_cancels_only_that_call() {
    let running = start(Limits { body_idle: LATER, ..slow_callers() });
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let send = connect(running.at).await;
    let mut ready = send.clone().ready().await.unwrap();
    let (answer, mut body) = ready.send_request(request("PUT", "/a"), false).unwrap();
    body.send_data("half".into(), false).unwrap();
    let mut version = base.accept().await;
    version.head().await;
    version.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
    let answer = answer.await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(whole(answer).await.err().unwrap().reason(), Some(Reason::CANCEL));
    version.gone().await;
    only_the_caller(&counted(&running.proxy, "base").await);
    let answering = async {
        let mut version = base.accept().await;
        version.head().await;
        version.send(ok("next")).await;
        version
    };
    let (next, _version) = tokio::join!(call(&send, request("GET", "/a"), ""), answering);
    assert_eq!(next.unwrap().text(), "next");
}

#[tokio::test]
async fn slow_upload_is_allowed_but_unresponsive_version_times_out() {
    let limits = Limits { first_byte: SOON, ..Limits::default() };
    let running = start(limits);
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut ready = connect(running.at).await.ready().await.unwrap();
    let (answer, mut body) = ready.send_request(request("PUT", "/a"), false).unwrap();
    let mut version = base.accept().await;
    version.head().await;
    for _ in 0..5 {
        body.send_data("x".into(), false).unwrap();
        assert_eq!(version.bytes(6).await, "1\r\nx\r\n");
        // Longer than the version may take: it is the caller who is waited for.
        tokio::time::sleep(SOON * 2).await;
    }
    body.send_data("y".into(), true).unwrap();
    assert_eq!(answer.await.unwrap().status().as_u16(), 504);
    let counted = counted(&running.proxy, "base").await;
    assert_eq!((counted.failed[Failure::TimedOut as usize], counted.callers_gone), (1, 0));
}

#[tokio::test]
async fn a_version_that_neither_says_go_on_nor_answers_is_the_one_that_is_late() {
    let running = start(Limits { first_byte: SOON * 2, body_idle: SOON, ..Limits::default() });
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut ready = connect(running.at).await.ready().await.unwrap();
    let mut asked = request("PUT", "/a");
    asked.headers_mut().insert("expect", "100-continue".parse().unwrap());
    let (answer, _body) = ready.send_request(asked, false).unwrap();
    let mut version = base.accept().await;
    version.head().await;
    assert_eq!(answer.await.unwrap().status().as_u16(), 504);
}

/// A version that answers once it has a whole body: what answers before may have nothing of it, and then all of it is left for another.
async fn broken_once_it_has_the_body() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut came, mut buffer) = (Vec::new(), [0; 1024]);
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    came.extend_from_slice(&buffer[..count]);
                    if came.ends_with(b"\r\n0\r\n\r\n") {
                        came.clear();
                        stream.write_all(BROKEN.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    at
}

#[tokio::test]
async fn bodies_that_are_kept_have_the_room_of_the_thread_and_give_it_back() {
    let running = start_with(1, Limits { kept_bodies: 8, ..Limits::default() });
    let (base, new) = (version(BASE).await, broken_once_it_has_the_body().await);
    running.proxy.apply(&table(1, base, new, 10_000)).await.unwrap();
    let send = connect(running.at).await;
    // Once too large and once not: what the first one kept is no more when the second one comes.
    for (body, status) in [("0123456789", 500), ("01234567", 200), ("0123456789", 500), ("01234567", 200)] {
        let answer = call(&send, request("PUT", "/a"), body).await.unwrap();
        assert_eq!(answer.status, status, "{body}");
    }
    let counted = counted(&running.proxy, "new").await;
    assert_eq!((counted.calls, counted.repeated), (4, 2));
    // A call that goes on keeps what it has from others.
    let slow = Scripted::new().await;
    running.proxy.apply(&table(2, base, slow.at, 10_000)).await.unwrap();
    let mut ready = send.clone().ready().await.unwrap();
    let (first, mut first_body) = ready.send_request(request("PUT", "/a"), false).unwrap();
    first_body.send_data("01234".into(), false).unwrap();
    let mut first_version = slow.accept().await;
    first_version.head().await;
    assert_eq!(first_version.bytes(10).await, "5\r\n01234\r\n");
    let second = call(&send, request("PUT", "/a"), "0123");
    let answering = async {
        let mut version = slow.accept().await;
        version.head().await;
        assert_eq!(version.bytes(14).await, "4\r\n0123\r\n0\r\n\r\n");
        version.send(BROKEN).await;
        version
    };
    let (second, _version) = tokio::join!(second, answering);
    assert_eq!(second.unwrap().status, 500);
    first_body.send_data("5".into(), true).unwrap();
    first_version.send(BROKEN).await;
    assert_eq!(whole(first.await.unwrap()).await.unwrap().text(), "base");
}

#[tokio::test]
async fn targets_that_do_not_even_refuse_are_given_up_after_three_whatever_they_speak() {
    let silent = [Silent::new().await, Silent::new().await, Silent::new().await];
    for protocol in ["http1", "h2c"] {
        let running = start_with(1, Limits { connect: SOON, ..Limits::default() });
        let good = Scripted::new().await;
        let mut targets: Vec<String> = silent.iter().map(|silent| silent.at.to_string()).collect();
        targets.push(good.target());
        let base = json!({"name": "base", "targets": targets, "protocol": protocol});
        running.serve(json!({"variations": [base]})).await;
        let answer = call(&connect(running.at).await, request("GET", "/a"), "").await.unwrap();
        assert_eq!((answer.status, answer.field("x-choirmaster-error")), (502, Some("refused")));
        assert!(good.is_left_alone().await, "{protocol}");
    }
}

#[tokio::test]
async fn what_every_connection_begins_with_has_to_come_in_the_time_of_a_head() {
    let running = start(Limits { head_time: SOON, ..Limits::default() });
    let mut caller = running.caller().await;
    caller.send("PRI * HTTP/2.0\r\n").await;
    assert!(caller.rest().await.starts_with("HTTP/1.1 408 "));
    // Whole, and nothing behind it.
    let mut caller = running.caller().await;
    caller.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r").await;
    assert!(caller.rest().await.starts_with("HTTP/1.1 408 "));
    running.settled().await;
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let mut frame = (content.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(content);
    frame
}

#[tokio::test]
async fn incomplete_http2_head_is_closed_like_idle_connection() {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    let running = start(Limits { idle: SOON, head_time: SOON, ..Limits::default() });
    // `:method: GET`, without the end of the head.
    let (settings, head) = (frame(SETTINGS, 0, 0, &[]), frame(HEADERS, 0, 1, &[0x82]));
    let sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings, &head].concat();
    running.caller_who_sent(sent).await.gone().await;
    running.settled().await;
}

#[tokio::test]
async fn an_answer_that_stands_still_breaks_off_and_is_the_versions_fault() {
    let running = start(Limits { body_idle: SOON, ..Limits::default() });
    let base = h2_version(async |_, mut respond: SendResponse<Bytes>| {
        let mut stream = respond.send_response(Response::new(()), false).unwrap();
        stream.send_data("half".into(), false).unwrap();
        std::future::pending::<()>().await;
    });
    let base = base.await;
    running.proxy.apply(&speaking_h2c(table(1, base, base, 0), &["base", "new"])).await.unwrap();
    let mut ready = connect(running.at).await.ready().await.unwrap();
    let (answer, _) = ready.send_request(request("GET", "/a"), true).unwrap();
    assert_eq!(whole(answer.await.unwrap()).await.err().unwrap().reason(), Some(Reason::CANCEL));
    let counted = counted(&running.proxy, "base").await;
    assert_eq!((counted.calls, counted.broken_off, counted.callers_gone), (1, 1, 0));
}

#[tokio::test]
async fn places_at_a_version_are_the_same_for_callers_of_either_protocol() {
    let running = start_with(1, Limits { in_flight: 1, queue: 0, ..Limits::default() });
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut first: Peer = running.caller().await;
    first.send(crate::world::GET).await;
    let mut version = base.accept().await;
    version.head().await;
    let answer = call(&connect(running.at).await, request("GET", "/a"), "").await.unwrap();
    assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
    version.send(ok("first")).await;
    assert_eq!(first.answer().await.1, "first");
}
