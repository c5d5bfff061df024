//! Connections that go on in another protocol.

use proxy::Limits;

use crate::world::{Peer, Running, SOON, Scripted, field, ok, start};

const UPGRADE: &str = "GET /a/socket HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Key: abc\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: def\r\n\r\n";

async fn upgraded(limits: Limits) -> (Running, Peer, Peer) {
    let running = start(limits);
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    // What the caller sends at once is for the other protocol.
    caller.send(format!("{UPGRADE}early")).await;
    let mut version = base.accept().await;
    let head = version.head().await;
    assert_eq!(field(&head, "connection"), Some("upgrade"));
    assert_eq!(field(&head, "upgrade"), Some("websocket"));
    assert_eq!(field(&head, "sec-websocket-key"), Some("abc"));
    version.send(format!("{SWITCHED}soon")).await;
    let head = caller.head().await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert_eq!(field(&head, "connection"), Some("upgrade"));
    assert_eq!(field(&head, "upgrade"), Some("websocket"));
    assert_eq!(field(&head, "sec-websocket-accept"), Some("def"));
    assert_eq!(caller.bytes(4).await, "soon");
    assert_eq!(version.bytes(5).await, "early");
    (running, caller, version)
}

#[tokio::test]
async fn after_an_upgrade_bytes_pass_both_ways_until_both_ends_have_closed() {
    let (running, mut caller, mut version) = upgraded(Limits::default()).await;
    for turn in 0..50 {
        caller.send(format!("up {turn:02}")).await;
        version.send(format!("down {turn:02}")).await;
        assert_eq!(version.bytes(5).await, format!("up {turn:02}"));
        assert_eq!(caller.bytes(7).await, format!("down {turn:02}"));
    }
    let table = running.proxy.table();
    assert_eq!(table.services()[0].versions()[0].in_flight(), 1);
    caller.end_sending().await;
    assert_eq!(version.rest().await, "");
    // One end has closed; the other goes on.
    version.send("and still").await;
    assert_eq!(caller.bytes(9).await, "and still");
    version.end_sending().await;
    assert_eq!(caller.rest().await, "");
    running.settled().await;
    let counted = running.counted("base").await;
    assert_eq!((counted.calls, counted.upgraded, counted.succeeded), (1, 1, 0));
}

#[tokio::test]
async fn a_version_that_closes_first_still_hears_the_caller() {
    let (running, mut caller, mut version) = upgraded(Limits::default()).await;
    version.send("last").await;
    version.end_sending().await;
    assert_eq!(caller.rest().await, "last");
    caller.send("heard").await;
    assert_eq!(version.bytes(5).await, "heard");
    caller.end_sending().await;
    assert_eq!(version.rest().await, "");
    running.settled().await;
}

#[tokio::test]
async fn an_end_that_dies_takes_the_other_with_it() {
    let (running, caller, mut version) = upgraded(Limits::default()).await;
    caller.reset();
    version.gone().await;
    running.settled().await;
    let (running, mut caller, version) = upgraded(Limits::default()).await;
    version.reset();
    caller.gone().await;
    running.settled().await;
}

#[tokio::test]
async fn a_tunnel_that_stands_still_for_too_long_is_closed() {
    let limits = Limits { tunnel_idle: SOON, ..Limits::default() };
    let (running, mut caller, mut version) = upgraded(limits).await;
    caller.gone().await;
    version.gone().await;
    running.settled().await;
}

#[tokio::test]
async fn half_closed_tunnel_is_closed_sooner_than_active_one() {
    let limits = Limits { body_idle: SOON, ..Limits::default() };
    let (running, mut caller, mut version) = upgraded(limits).await;
    version.end_sending().await;
    caller.gone().await;
    version.gone().await;
    running.settled().await;
}

#[tokio::test]
async fn a_version_that_does_not_upgrade_answers_like_any_other() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    caller.send(UPGRADE).await;
    let mut version = base.accept().await;
    version.head().await;
    version.send(ok("no")).await;
    assert_eq!(caller.answer().await.1, "no");
    caller.send(UPGRADE).await;
    version.head().await;
    version.send(SWITCHED).await;
    assert!(caller.head().await.starts_with("HTTP/1.1 101 "));
}

#[tokio::test]
async fn another_http_is_not_upgraded_to_since_its_calls_would_pass_by_everything() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    let mut version = None;
    for asked in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAA\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: H2C\r\nUpgrade: websocket\r\n",
        "Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n",
        "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
        "Connection: close, Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0005\r\n",
    ] {
        let body = if asked.contains("0005") { "hello" } else { "" };
        caller.send(format!("GET /a HTTP/1.1\r\nHost: h\r\n{asked}\r\n{body}")).await;
        let version = match &mut version {
            Some(version) => version,
            None => version.insert(base.accept().await),
        };
        let head = version.head().await;
        assert_eq!((field(&head, "upgrade"), field(&head, "http2-settings")), (None, None), "{head}");
        assert_eq!(field(&head, "connection"), None, "{head}");
        assert_eq!(version.bytes(body.len()).await, body);
        version.send(ok("plain")).await;
        assert_eq!(caller.answer().await.1, "plain");
    }
}
