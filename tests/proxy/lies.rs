//! What answers on the proxy's control socket and is no proxy, or one of another version.

use proxy::control::{
    client::{Client, ClientError},
    form::{Drained, TableNumber},
};
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixListener,
};

/// Asks a socket that answers these bytes and leaves.
async fn asked<A: DeserializeOwned>(answer: &str) -> Result<A, ClientError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let answer = answer.to_owned();
    let lying = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let said = Client::new(path).get("/drained").await;
    lying.await.unwrap();
    said
}

fn json(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn malformed_control_socket_answers_are_reported_and_ignored() {
    let cut = json("200 OK", r#"{"drained":true,"in_flight":0}"#);
    let cases = [
        ("SSH-2.0-OpenSSH_9.2\r\n".to_owned(), "the proxy did not answer: "),
        (String::new(), "the proxy did not answer: "),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned(), "the proxy did not answer: "),
        (cut[..cut.len() - 1].to_owned(), "the proxy did not answer: "),
        (json("200 OK", "<html>"), "its answer is none: expected value"),
        (json("200 OK", ""), "its answer is none: EOF"),
        (json("200 OK", r#"{"drained":"yes","in_flight":0}"#), "its answer is none: invalid type"),
        (json("200 OK", r#"{"drained":true}"#), "its answer is none: missing field `in_flight`"),
        (json("200 OK", r#"{"drained":true,"in_flight":-1}"#), "its answer is none: invalid value"),
        (json("302 Found", ""), "302 Found with another body"),
        (json("500 Internal Server Error", "<html>"), "500 Internal Server Error with another body"),
        (json("404 Not Found", r#"{"message":"no such page"}"#), "404 Not Found with another body"),
    ];
    for (answer, expected) in cases {
        let error = asked::<Drained>(&answer).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{answer:?}: {text}");
        assert!(!error.is_the_callers(), "{answer:?}");
    }
    let refused = asked::<Drained>(&json("409 Conflict", r#"{"error":"not now"}"#)).await.unwrap_err();
    assert!(refused.is_the_callers() && refused.to_string() == "not now", "{refused}");
}

#[tokio::test]
async fn what_a_later_proxy_says_besides_is_passed_over() {
    let later = r#"{"drained":false,"in_flight":3,"since":{"a":[1]}}"#;
    assert_eq!(
        asked::<Drained>(&json("200 OK", later)).await.unwrap(),
        Drained { drained: false, in_flight: 3 }
    );
    let refusal = r#"{"error":"old","in_force":{"epoch":1,"generation":9,"term":4},"hint":"none"}"#;
    match asked::<Drained>(&json("409 Conflict", refusal)).await.unwrap_err() {
        ClientError::Refused { status: 409, refusal } => {
            assert_eq!(refusal.in_force, Some(TableNumber { epoch: 1, generation: 9 }));
        }
        other => panic!("{other:?}"),
    }
}
