//! Calls as gRPC makes them: messages of five bytes and their content, in both directions at once, and a status behind them.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use h2::{RecvStream, client::SendRequest, server::SendResponse};
use http::{HeaderMap, Request, Response};
use proxy::{Limits, Proxy, form::TableForm};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    http2_world::{connect, counted, counted_since, h2_version, read_chunks, request, speaking_h2c, whole},
    world::{read_head, start, table},
};

/// A message as it travels.
fn message(content: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(content.len() + 5);
    framed.put_u8(0);
    framed.put_u32(content.len() as u32);
    framed.put_slice(content);
    framed.freeze()
}

/// Messages as they arrive.
struct Messages {
    stream: RecvStream,
    came: BytesMut,
}

impl Messages {
    fn new(stream: RecvStream) -> Self {
        Self { stream, came: BytesMut::new() }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.came.len() >= 5 {
                let length = u32::from_be_bytes(self.came[1..5].try_into().unwrap()) as usize;
                if self.came.len() >= 5 + length {
                    return Some(self.came.split_to(5 + length).split_off(5).freeze());
                }
            }
            let data = self.stream.data().await?.unwrap();
            self.stream.flow_control().release_capacity(data.len()).unwrap();
            self.came.extend_from_slice(&data);
        }
    }

    async fn status(&mut self) -> Option<String> {
        let trailers = self.stream.trailers().await.unwrap()?;
        Some(trailers.get("grpc-status")?.to_str().unwrap().to_owned())
    }
}

fn status(code: u32) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert("grpc-status", code.into());
    fields.insert("grpc-message", "what%20happened".parse().unwrap());
    fields
}

/// A service of gRPC. Its methods:
/// - `/echo.Echo/Each` answers each message at once and ends with status 0;
/// - `/echo.Echo/Many` answers with as many messages as the first one has bytes;
/// - `/echo.Echo/Head/N` answers with status N and nothing else;
/// - `/echo.Echo/Behind/N` answers with a message and then status N.
async fn service(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (head, body) = request.into_parts();
    assert_eq!(head.headers.get("te").unwrap(), "trailers");
    assert_eq!(head.headers.get("content-type").unwrap(), "application/grpc");
    assert_eq!(head.uri.authority().unwrap(), "here.example");
    let mut messages = Messages::new(body);
    let path = head.uri.path().to_owned();
    let (_, code) = path.rsplit_once('/').unwrap();
    let answer = || Response::builder().header("content-type", "application/grpc");
    if path.starts_with("/echo.Echo/Head/") {
        let mut head = answer().body(()).unwrap();
        head.headers_mut().extend(status(code.parse().unwrap()));
        let _ = respond.send_response(head, true);
        return;
    }
    let mut stream = respond.send_response(answer().body(()).unwrap(), false).unwrap();
    if path.starts_with("/echo.Echo/Behind/") {
        stream.send_data(message(b"part"), false).unwrap();
        stream.send_trailers(status(code.parse().unwrap())).unwrap();
        return;
    }
    while let Some(content) = messages.next().await {
        if path == "/echo.Echo/Many" {
            for at in 0..content.len() {
                stream.send_data(message(at.to_string().as_bytes()), false).unwrap();
            }
        } else {
            stream.send_data(message(&content), false).unwrap();
        }
    }
    stream.send_trailers(status(0)).unwrap();
}

fn asking(method: &str) -> Request<()> {
    let mut asked = request("POST", &format!("/echo.Echo/{method}"));
    asked.headers_mut().insert("te", "trailers".parse().unwrap());
    asked.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    asked
}

/// A table that leads every path of a host to the service, as gRPC needs it.
fn by_host(generation: u64, base: SocketAddr, new: SocketAddr, share: u16, retry: Option<&str>) -> TableForm {
    let form = speaking_h2c(table(generation, base, new, share), &["base", "new"]);
    let mut form = serde_json::to_value(form).unwrap();
    form["services"][0]["hosts"] = serde_json::json!(["here.example"]);
    if let Some(retry) = retry {
        form["services"][0]["retry"] = retry.into();
    }
    serde_json::from_value(form).unwrap()
}

/// Makes a call of one message; gives how many came back, and the status, from the head or from behind.
async fn unary(caller: &SendRequest<Bytes>, method: &str) -> (usize, String) {
    let mut ready = caller.clone().ready().await.unwrap();
    let (answer, mut stream) = ready.send_request(asking(method), false).unwrap();
    stream.send_data(message(b"one"), true).unwrap();
    let answer = whole(answer.await.unwrap()).await.unwrap();
    assert_eq!(answer.status, 200);
    let trailers = answer.trailers.as_ref().unwrap_or(&answer.fields);
    assert_eq!(trailers.get("grpc-message").unwrap(), "what%20happened");
    (answer.body.len(), trailers.get("grpc-status").unwrap().to_str().unwrap().to_owned())
}

async fn serving(new_share: u16, retry: Option<&str>) -> (Proxy, SendRequest<Bytes>) {
    let running = start(Limits::default());
    let (base, new) = (h2_version(service).await, h2_version(service).await);
    running.proxy.apply(&by_host(1, base, new, new_share, retry)).await.unwrap();
    let caller = connect(running.at).await;
    (running.proxy, caller)
}

#[tokio::test]
async fn messages_pass_in_both_directions_while_the_call_goes_on() {
    let (proxy, caller) = serving(0, None).await;
    let mut ready = caller.ready().await.unwrap();
    let (answer, mut stream) = ready.send_request(asking("Each"), false).unwrap();
    stream.send_data(message(b"0"), false).unwrap();
    let mut messages = Messages::new(answer.await.unwrap().into_body());
    for number in 1..200_u32 {
        // Each answer is there before the next message is sent.
        assert_eq!(messages.next().await.unwrap(), (number - 1).to_string());
        stream.send_data(message(number.to_string().as_bytes()), false).unwrap();
    }
    stream.send_data(Bytes::new(), true).unwrap();
    assert_eq!(messages.next().await.unwrap(), "199");
    assert_eq!(messages.next().await, None);
    assert_eq!(messages.status().await.as_deref(), Some("0"));
    let tally = counted(&proxy, "base").await;
    assert_eq!((tally.calls, tally.errors, tally.broken_off), (1, 0, 0));
}

#[tokio::test]
async fn slowly_read_grpc_stream_arrives_whole_without_blocking_other_calls() {
    const MESSAGES: u32 = 30_000;
    let (_proxy, caller) = serving(0, None).await;
    let mut ready = caller.clone().ready().await.unwrap();
    let (answer, mut stream) = ready.send_request(asking("Many"), false).unwrap();
    stream.send_data(message(&vec![0; MESSAGES as usize]), true).unwrap();
    let mut messages = Messages::new(answer.await.unwrap().into_body());
    // Calls on the same connections, while what nobody reads fills all buffers.
    for _ in 0..200 {
        assert_eq!(unary(&caller, "Head/0").await.1, "0");
    }
    for number in 0..MESSAGES {
        assert_eq!(messages.next().await.unwrap(), number.to_string());
    }
    assert_eq!(messages.next().await, None);
    assert_eq!(messages.status().await.as_deref(), Some("0"));
}

#[tokio::test]
async fn grpc_status_codes_are_attributed_to_version_or_caller() {
    let (proxy, caller) = serving(0, None).await;
    let mut before = call_metrics::Tally::default();
    for place in ["Head", "Behind"] {
        for code in 0..=16_u32 {
            let (length, status) = unary(&caller, &format!("{place}/{code}")).await;
            assert_eq!((length > 0, &*status), (place == "Behind", &*code.to_string()));
            let tally = counted_since(&proxy, "base", &mut before).await;
            let is_of_version = [2, 4, 8, 13, 14, 15].contains(&code);
            assert_eq!((tally.calls, tally.errors), (1, u64::from(is_of_version)), "{place} {code}");
        }
    }
}

/// A new version that answers each call so; whatever is called.
async fn always(place: &'static str, code: u32) -> SocketAddr {
    h2_version(move |_, mut respond: SendResponse<Bytes>| async move {
        let mut head = Response::new(());
        if place == "Head" {
            head.headers_mut().extend(status(code));
            let _ = respond.send_response(head, true);
        } else if let Ok(mut stream) = respond.send_response(head, false) {
            let _ = stream.send_data(message(b"part"), false);
            let _ = stream.send_trailers(status(code));
        }
    })
    .await
}

#[tokio::test]
async fn grpc_failure_is_repeated_only_if_declared_and_nothing_sent() {
    let running = start(Limits::default());
    let base = h2_version(service).await;
    let (early, late, callers) =
        (always("Head", 14).await, always("Behind", 14).await, always("Head", 5).await);
    let caller = connect(running.at).await;
    // The new version, what is declared; the status the caller sees, and what is counted: errors, repeats.
    let cases = [
        (early, Some("failed"), "0", 0, 1),
        (early, None, "14", 1, 0),
        (early, Some("never"), "14", 1, 0),
        (late, Some("failed"), "14", 1, 0),
        (callers, Some("failed"), "5", 0, 0),
    ];
    let mut before = call_metrics::Tally::default();
    for (generation, (new, retry, seen, errors, repeated)) in (1..).zip(cases) {
        let form = by_host(generation, base, new, 10_000, retry);
        running.proxy.apply(&form).await.unwrap();
        let (_, status) = unary(&caller, "Head/0").await;
        assert_eq!(status, seen, "case {generation}");
        let tally = counted_since(&running.proxy, "new", &mut before).await;
        assert_eq!((tally.calls, tally.errors, tally.repeated), (1, errors, repeated), "case {generation}");
    }
}

#[tokio::test]
async fn a_version_that_is_away_is_said_with_a_status_that_callers_of_grpc_understand() {
    let running = start(Limits::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    running.proxy.apply(&by_host(1, at, at, 0, None)).await.unwrap();
    let mut ready = connect(running.at).await.ready().await.unwrap();
    let (answer, mut stream) = ready.send_request(asking("Each"), false).unwrap();
    stream.send_data(message(b"one"), true).unwrap();
    // Libraries of gRPC read 502, 503 and 504 as UNAVAILABLE.
    let answer = whole(answer.await.unwrap()).await.unwrap();
    assert_eq!((answer.status, answer.field("x-choirmaster-error")), (502, Some("refused")));
}

#[tokio::test]
async fn a_caller_of_http1_gets_the_status_behind_the_chunks() {
    let running = start(Limits::default());
    let base = h2_version(service).await;
    running.proxy.apply(&by_host(1, base, base, 0, None)).await.unwrap();
    let mut caller = TcpStream::connect(running.at).await.unwrap();
    let body = message(b"one");
    let head = format!(
        "POST /echo.Echo/Each HTTP/1.1\r\nHost: here.example\r\nTE: trailers\r\nContent-Type: application/grpc\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    caller.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
    assert!(read_head(&mut caller).await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    let chunks = String::from_utf8(read_chunks(&mut caller).await).unwrap();
    assert_eq!(
        chunks,
        "8\r\n\0\0\0\0\u{3}one\r\n0\r\ngrpc-status: 0\r\ngrpc-message: what%20happened\r\n\r\n"
    );
}
