//! Calls and answers that two programs could read differently.

use proxy::Limits;

use crate::world::{Scripted, field, ok, start};

/// Heads that have more than one meaning, or none.
const HEADS: [(&str, &str); 36] = [
    (
        "both lengths",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "both the other way",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    ),
    ("two lengths", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    (
        "the same length twice",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    ),
    ("a list of lengths", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\nhello"),
    ("a signed length", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello"),
    ("a negative length", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n"),
    ("a length in hexadecimal", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5\r\n\r\nhello"),
    ("a length that is empty", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n"),
    (
        "a length beyond all numbers",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551617\r\n\r\n",
    ),
    (
        "a coding beside chunked",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunked that isn't last",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ),
    ("chunked twice", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    (
        "chunked in two fields",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("chunked misspelt", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("no coding", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n"),
    (
        "chunked with a parameter",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
    ),
    ("chunked in HTTP/1.0", "POST /a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a folded field", "POST /a HTTP/1.1\r\nHost: h\r\nX-A: b\r\n Content-Length: 5\r\n\r\nhello"),
    ("a folded coding", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    ("a fold before the first field", "POST /a HTTP/1.1\r\n X: y\r\nHost: h\r\n\r\n"),
    ("a space before a colon", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhello"),
    ("a tab in a name", "POST /a HTTP/1.1\r\nHost: h\r\nContent-\tLength: 5\r\n\r\nhello"),
    ("a bare line feed between fields", "POST /a HTTP/1.1\r\nHost: h\nContent-Length: 5\r\n\r\nhello"),
    ("bare line feeds at the end", "GET /a HTTP/1.1\r\nHost: h\n\n"),
    ("a bare line feed behind the line", "GET /a HTTP/1.1\nHost: h\r\n\r\n"),
    ("a bare carriage return", "GET /a HTTP/1.1\r\nHost: h\r\nX-A: b\rContent-Length: 5\r\n\r\nhello"),
    ("a zero byte", "GET /a HTTP/1.1\r\nHost: h\r\nX-A: b\0c\r\n\r\n"),
    ("a line without a colon", "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length\r\n\r\n"),
    ("two hosts", "GET /a HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n"),
    ("no host", "GET /a HTTP/1.1\r\nX-A: b\r\n\r\n"),
    ("a host with a path", "GET /a HTTP/1.1\r\nHost: h/b\r\n\r\n"),
    ("a host with a user", "GET http://user@h/a HTTP/1.1\r\nHost: h\r\n\r\n"),
    (
        "a connection field that names the length",
        "POST /a HTTP/1.1\r\nHost: h\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "a connection field that names the coding",
        "POST /a HTTP/1.1\r\nHost: h\r\nConnection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "a connection field that names the cookie",
        "GET /a HTTP/1.1\r\nHost: h\r\nConnection: cookie\r\nCookie: a=b\r\n\r\n",
    ),
];

#[tokio::test]
async fn a_head_with_two_meanings_is_refused_and_nothing_behind_it_is_read() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    for (what, head) in HEADS {
        let mut caller = running.caller().await;
        // A second call behind it: whoever finds another end than the proxy would answer it.
        caller.send(format!("{head}GET /a/smuggled HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        let answer = caller.rest().await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{what}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{what}: {answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{what}: {answer}");
        assert!(answer.contains("\r\nX-Choirmaster-Error: refused\r\n"), "{what}: {answer}");
        assert!(base.is_left_alone().await, "{what}");
    }
}

/// Chunked bodies that aren't ones.
const CHUNKS: [(&str, &str); 18] = [
    ("an extension", "5;a=b\r\nhello\r\n0\r\n\r\n"),
    ("an empty extension", "5;\r\nhello\r\n0\r\n\r\n"),
    ("an extension of the last chunk", "5\r\nhello\r\n0;a\r\n\r\n"),
    ("a space behind the size", "5 \r\nhello\r\n0\r\n\r\n"),
    ("a size in two ways", "0x5\r\nhello\r\n0\r\n\r\n"),
    ("a negative size", "-5\r\nhello\r\n0\r\n\r\n"),
    ("no size", "\r\nhello\r\n0\r\n\r\n"),
    ("a size beyond all numbers", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("a bare line feed behind the size", "5\nhello\r\n0\r\n\r\n"),
    ("a bare line feed behind the data", "5\r\nhello\n0\r\n\r\n"),
    ("more data than the size says", "4\r\nhello\r\n0\r\n\r\n"),
    ("less data than the size says", "6\r\nhello\r\n0\r\n\r\n"),
    ("a trailer that is a length", "0\r\nContent-Length: 5\r\n\r\n"),
    ("a trailer that is a coding", "0\r\ntransfer-encoding: chunked\r\n\r\n"),
    ("a trailer that is a host", "0\r\nX-A: b\r\nHOST: i\r\n\r\n"),
    ("a trailer without a colon", "0\r\nX-A\r\n\r\n"),
    ("a folded trailer", "0\r\nX-A: b\r\n c\r\n\r\n"),
    ("a bare line feed behind the trailers", "0\r\nX-A: b\n\r\n"),
];

#[tokio::test]
async fn a_chunked_body_with_two_ends_is_refused_and_the_version_gets_no_second_call() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    for (what, body) in CHUNKS {
        let mut caller = running.caller().await;
        caller.send("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        let mut version = base.accept().await;
        let head = version.head().await;
        assert_eq!(field(&head, "transfer-encoding"), Some("chunked"), "{what}");
        caller.send(format!("{body}GET /a/smuggled HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        let answer = caller.rest().await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{what}: {answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{what}: {answer}");
        // The version's connection ends in the middle of the body.
        let came = version.rest().await;
        assert!(!came.contains("smuggled"), "{what}: {came}");
        assert!(base.is_left_alone().await, "{what}");
    }
    assert_eq!(running.counted("base").await.bad_bodies, CHUNKS.len() as u64);
    running.settled().await;
}

#[tokio::test]
async fn what_frames_a_body_reaches_the_version_in_one_spelling() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let spelt = [
        ("content-length:\t0005 ", "Content-Length: 5", "hello"),
        ("TRANSFER-ENCODING: \tCHUNKED\t", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
        ("Content-Length: 000", "Content-Length: 0", ""),
    ];
    let mut caller = running.caller().await;
    let mut version = None;
    for (sent, passed, body) in spelt {
        caller.send(format!("PUT /a HTTP/1.1\r\nHost: h\r\n{sent}\r\nX-Last: one\r\n\r\n{body}")).await;
        let version = match &mut version {
            Some(version) => version,
            None => version.insert(base.accept().await),
        };
        let head = version.head().await;
        assert!(head.contains(&format!("\r\n{passed}\r\n")), "{head}");
        let framing = head.to_ascii_lowercase();
        assert_eq!(framing.matches("content-length").count() + framing.matches("transfer-enc").count(), 1);
        assert_eq!(version.bytes(body.len()).await, body);
        version.send(ok("done")).await;
        assert_eq!(caller.answer().await.1, "done");
    }
}

/// Answers that have more than one meaning, or none.
const ANSWERS: [(&str, &str); 17] = [
    ("both lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    ("a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"),
    ("a coding beside chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a folded field", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n"),
    ("a space before a colon", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello"),
    ("a bare line feed", "HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 0\r\n\r\n"),
    ("bare line feeds alone", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    ("an empty line before it", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    (
        "a connection field that names the length",
        "HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 0\r\n\r\n",
    ),
    ("a status that is none", "HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n"),
    (
        "another protocol that nobody asked for",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ),
    ("another version", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("another protocol", "SSH-2.0-OpenSSH_9.9\r\n"),
    (
        "a chunk with an extension",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
    ),
    ("a zero byte", "HTTP/1.1 200 OK\r\nX-A: b\0\r\nContent-Length: 0\r\n\r\n"),
];

#[tokio::test]
async fn an_answer_with_two_meanings_is_a_failure_of_the_version_and_passes_to_nobody() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    for (what, answer) in ANSWERS {
        caller.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let mut version = base.accept().await;
        version.head().await;
        version.send(answer).await;
        let (head, body) = caller.answer().await;
        assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{what}: {head}");
        assert_eq!(field(&head, "x-choirmaster-error"), Some("nonsense"), "{what}");
        assert!(body.starts_with("version \"base\" did not answer this call"), "{what}: {body}");
        version.gone().await;
    }
    let counted = running.counted("base").await;
    assert_eq!(counted.failed[traffic::Failure::Nonsense as usize], ANSWERS.len() as u64);
    assert_eq!(counted.calls, ANSWERS.len() as u64);
}

#[tokio::test]
async fn bytes_behind_an_answer_are_nobodys_answer() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    caller.send("GET /a/1 HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut version = base.accept().await;
    version.head().await;
    version.send(ok("one") + &ok("two")).await;
    assert_eq!(caller.answer().await.1, "one");
    caller.send("GET /a/2 HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut second = base.accept().await;
    assert!(second.head().await.starts_with("GET /2 "));
    second.send(ok("three")).await;
    assert_eq!(caller.answer().await.1, "three");
}

#[tokio::test]
async fn an_answer_that_can_have_no_body_is_not_said_to_have_one() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    let mut version = None;
    for framed in ["Content-Length: 5", "Transfer-Encoding: chunked", "X-A: b"] {
        caller.send("DELETE /a HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let version = match &mut version {
            Some(version) => version,
            None => version.insert(base.accept().await),
        };
        version.head().await;
        version.send(format!("HTTP/1.1 204 No Content\r\n{framed}\r\nX-Last: one\r\n\r\n")).await;
        let head = caller.head().await;
        assert!(head.starts_with("HTTP/1.1 204 No Content\r\n"), "{head}");
        assert_eq!((field(&head, "content-length"), field(&head, "transfer-encoding")), (None, None));
        assert_eq!(field(&head, "x-last"), Some("one"));
    }
}
