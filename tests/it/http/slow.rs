//! Slow and half-open connections are cut, and nobody else waits for them.

use std::time::Duration;

use http_api::serve::Timeouts;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::world::World;

/// Far longer than any of the timeouts below.
const PATIENCE: Duration = Duration::from_secs(15);

async fn impatient() -> World {
    let short = Duration::from_millis(200);
    World::with(|options| {
        options.timeouts = Timeouts {
            head: short,
            body_part: short,
            body: short * 3,
            write: short,
            handshake: short,
            drain: Duration::from_secs(2),
        };
    })
    .await
}

async fn connect(world: &World) -> TcpStream {
    TcpStream::connect(world.manager.address).await.unwrap()
}

/// What the manager still says before it closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is as good an end as a close.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut text)).await.expect("the connection is cut in time");
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut() {
    let world = impatient().await;
    for start in ["", "G", "GET /healthz HTTP/1.1\r\nhost: x\r\n", "POST /poll HTTP/1.1\r\ncontent-length: 5"]
    {
        let mut stream = connect(&world).await;
        stream.write_all(start.as_bytes()).await.unwrap();
        assert!(!rest(&mut stream).await.contains(" 200 "), "{start:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_end_is_cut() {
    let world = impatient().await;
    for path in ["/poll", "/result", "/release", "/api/v1/releases/a/pause"] {
        let mut stream = connect(&world).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
        );
        stream
            .write_all(head.replace("json", if path == "/release" { "yaml" } else { "json" }).as_bytes())
            .await
            .unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_body_that_drips_is_cut_as_a_whole() {
    let world = impatient().await;
    let stream = connect(&world).await;
    let (mut reader, mut writer) = stream.into_split();
    let dripping = tokio::spawn(async move {
        let head = "POST /poll HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n";
        writer.write_all(head.as_bytes()).await.unwrap();
        // Each drop comes in time; all of them would take ten times the limit.
        while writer.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let mut text = Vec::new();
    let _ = timeout(PATIENCE, reader.read_to_end(&mut text)).await.expect("the connection is cut in time");
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    dripping.abort();
    world.stop().await;
}

#[tokio::test]
async fn slow_connections_leave_room_for_others_and_do_not_hold_up_the_end() {
    let world = impatient().await;
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(connect(&world).await);
    }
    assert_eq!(world.get("/healthz").await.status, 200);
    timeout(PATIENCE, world.stop()).await.expect("it stops in time");
}

#[tokio::test]
async fn noise_is_not_answered_with_more_than_a_refusal() {
    let world = impatient().await;
    for noise in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\0\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
        let mut stream = connect(&world).await;
        stream.write_all(noise).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let mut stream = connect(&world).await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000));
    let _ = stream.write_all(long.as_bytes()).await;
    let answer = rest(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    world.stop().await;
}
