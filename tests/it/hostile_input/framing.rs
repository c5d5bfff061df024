//! Requests that are not quite HTTP, and answers that are the last of their connection.

use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use super::raw::{first_answer, raw};
use crate::world::{World, strategy};

#[tokio::test]
async fn a_request_names_its_host_exactly_once() {
    let world = World::start().await;
    for path in ["/healthz", "/api/v1/releases", "/release?childID=x&releaseID=y", "/nowhere"] {
        let without = format!("GET {path} HTTP/1.1\r\naccept: */*\r\n\r\n");
        let twice = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n");
        let both = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\nhost: evil.example\r\n\r\n");
        for request in [without, twice, both] {
            let answer = raw(world.manager.address, request.as_bytes()).await;
            assert_eq!(answer.status(), 400, "{request}: {answer:?}");
        }
        let older = format!("GET {path} HTTP/1.0\r\n\r\n");
        assert_ne!(raw(world.manager.address, older.as_bytes()).await.status(), 400, "{older}");
    }
    world.stop().await;
}

/// Whoever is refused before all was read can't send another request on the connection, and is told so.
#[tokio::test]
async fn an_answer_that_comes_before_the_body_says_that_the_connection_ends() {
    let world = World::start().await;
    let much = 100_000_000;
    for (path, kind, sent, status) in [
        ("/release", "image/png", 0, 415),
        ("/poll", "application/json", 300_000, 413),
        ("/nowhere", "text/plain", 0, 404),
        ("/api/v1/releases/a/abort", "application/json", 30_000, 413),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {much}\r\n\r\n"
        );
        let request = head + &" ".repeat(sent);
        let answer = raw(world.manager.address, request.as_bytes()).await;
        assert_eq!(answer.status(), status, "{path} {kind}: {answer:?}");
        assert!(answer.says_close(), "{path} {kind}: {answer:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn an_answer_to_a_whole_request_leaves_the_connection_open() {
    let world = World::start().await;
    let mut stream = TcpStream::connect(world.manager.address).await.unwrap();
    let body = strategy("a");
    let submit = format!(
        "POST /release HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/yaml\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let get = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned();
    let bad = "POST /poll HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n[]".to_owned();
    for (request, status) in [(&get, 200), (&submit, 201), (&bad, 400), (&get, 200)] {
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = first_answer(&mut stream).await;
        assert_eq!(answer.status(), status, "{answer:?}");
        assert!(!answer.says_close(), "{answer:?}");
    }
    world.stop().await;
}
