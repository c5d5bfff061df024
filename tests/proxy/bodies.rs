//! Bodies: every byte of them, wherever the network cuts them.

use proptest::{prelude::*, sample::select, test_runner::TestRunner};
use proxy::Limits;

use crate::world::{GET, Peer, Scripted, field, ok, start, start_with};

/// How the end of a body is told.
#[derive(Debug, Clone)]
enum Told {
    Length,
    /// In chunks of these sizes, over and over, with so many trailers.
    Chunks(Vec<usize>, usize),
}

#[derive(Debug, Clone)]
struct Message {
    body: String,
    told: Told,
}

impl Message {
    /// The field that tells the end, and the body as it is sent.
    fn encoded(&self) -> (String, String) {
        match &self.told {
            Told::Length => (format!("Content-Length: {}", self.body.len()), self.body.clone()),
            Told::Chunks(sizes, trailers) => {
                let mut sizes = sizes.iter().cycle();
                let (mut sent, mut rest) = (String::new(), self.body.as_str());
                while !rest.is_empty() {
                    let (chunk, behind) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                    sent.extend([&format!("{:X}\r\n", chunk.len()), chunk, "\r\n"]);
                    rest = behind;
                }
                sent += "0\r\n";
                sent.extend((0..*trailers).map(|trailer| format!("X-Trailer-{trailer}: 0:\t{trailer}\r\n")));
                ("Transfer-Encoding: chunked".to_owned(), sent + "\r\n")
            }
        }
    }
}

/// Bodies that look like what stands between bodies.
fn message() -> impl Strategy<Value = Message> {
    let piece = select(vec![
        "\r\n",
        "0\r\n\r\n",
        "5",
        "a",
        "\n",
        ";",
        "GET / HTTP/1.1\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
    ]);
    let body = prop_oneof![
        4 => prop::collection::vec(piece.clone(), 0..40),
        1 => prop::collection::vec(piece, 8_000..20_000),
    ];
    let told = prop_oneof![
        Just(Told::Length),
        (prop::collection::vec(1..3_000_usize, 1..5), 0..3_usize)
            .prop_map(|(sizes, trailers)| Told::Chunks(sizes, trailers)),
    ];
    (body, told).prop_map(|(pieces, told)| Message { body: pieces.concat(), told })
}

/// Sizes of the pieces that something is sent in, over and over.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(1..8_usize, 1..6),
        prop::collection::vec(1..100_000_usize, 1..6),
        Just(vec![usize::MAX]),
    ]
}

async fn send_cut(to: &mut Peer, mut text: &str, cuts: &[usize]) {
    // What is large isn't cut into single bytes.
    let least = text.len() / 400;
    for cut in cuts.iter().cycle() {
        if text.is_empty() {
            return;
        }
        let (piece, rest) = text.split_at((*cut).max(least + 1).min(text.len()));
        to.send(piece).await;
        tokio::task::yield_now().await;
        text = rest;
    }
}

#[test]
fn any_bytes_cut_anywhere_are_the_same_bytes_at_the_other_end() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (running, base) = runtime.block_on(async {
        let running = start(Limits::default());
        let base = Scripted::new().await;
        running.serve_base(&base).await;
        (running, base)
    });
    let calls = prop::collection::vec((message(), message()), 1..4);
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..crate::cases::cases(120) });
    let checked = runner.run(&(calls, cuts(), cuts()), |(calls, up_cuts, down_cuts)| {
        runtime.block_on(async {
            let caller = running.caller().await;
            let mut sent = String::new();
            for (up, _) in &calls {
                let (field, body) = up.encoded();
                sent.extend(["PUT /a HTTP/1.1\r\nHost: h\r\n", &field, "\r\n\r\n", &body]);
            }
            let (mut caller, mut sending) = caller.twins();
            let version = async {
                let mut version = base.accept().await;
                for (up, down) in &calls {
                    let (field, body) = up.encoded();
                    let head = version.head().await;
                    assert!(head.contains(&format!("\r\n{field}\r\n")), "{head}");
                    assert_eq!(version.bytes(body.len()).await, body);
                    let (field, body) = down.encoded();
                    send_cut(&mut version, &format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n{body}"), &down_cuts)
                        .await;
                }
                version
            };
            let answers = async {
                for (_, down) in &calls {
                    let (field, body) = down.encoded();
                    let head = caller.head().await;
                    assert!(head.contains(&format!("\r\n{field}\r\n")), "{head}");
                    assert_eq!(caller.bytes(body.len()).await, body);
                }
            };
            tokio::join!(send_cut(&mut sending, &sent, &up_cuts), version, answers);
        });
        Ok(())
    });
    checked.unwrap();
}

#[tokio::test]
async fn a_version_may_answer_while_the_body_still_comes() {
    // Each thread keeps connections of its own.
    let running = start_with(1, Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    caller.send("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let mut version = base.accept().await;
    version.head().await;
    version.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let head = caller.head().await;
    // How much of the body will be taken nobody knows yet.
    assert_eq!(field(&head, "connection"), Some("close"));
    for turn in 0..100 {
        let chunk = format!("2\r\n{turn:02}\r\n");
        caller.send(&chunk).await;
        assert_eq!(version.bytes(chunk.len()).await, chunk);
        version.send(&chunk).await;
        assert_eq!(caller.bytes(chunk.len()).await, chunk);
    }
    caller.send("0\r\n\r\n").await;
    assert_eq!(version.bytes(5).await, "0\r\n\r\n");
    version.send("0\r\nX-Sum: 100\r\n\r\n").await;
    assert_eq!(caller.rest().await, "0\r\nX-Sum: 100\r\n\r\n");
    // The version has the whole call, and the connection to it goes on.
    let mut caller = running.caller().await;
    caller.send(GET).await;
    version.head().await;
}

#[tokio::test]
async fn a_caller_that_sends_on_after_its_answer_gets_to_read_it() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (mut caller, mut sending) = running.caller().await.twins();
    sending.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n").await;
    let mut version = base.accept().await;
    version.head().await;
    version.send("HTTP/1.1 413 Too much\r\nContent-Length: 5\r\n\r\nnever").await;
    version.end_sending().await;
    // Far more than a connection that is closed at once would take without an error.
    for _ in 0..200 {
        sending.send(vec![b'x'; 64 * 1024]).await;
    }
    let answer = caller.rest().await;
    assert!(answer.starts_with("HTTP/1.1 413 Too much\r\n") && answer.ends_with("\r\n\r\nnever"), "{answer}");
    drop((caller, sending));
    running.settled().await;
}

#[tokio::test]
async fn a_body_of_any_size_passes_and_little_of_it_is_held() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let (mut caller, mut sending) = running.caller().await.twins();
    let piece = "0123456789abcdef".repeat(4_096);
    let pieces = 320;
    let length = piece.len() * pieces;
    let up = async {
        sending.send(format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n")).await;
        for _ in 0..pieces {
            sending.send(&piece).await;
        }
    };
    let version = async {
        let mut version = base.accept().await;
        version.head().await;
        version.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")).await;
        for _ in 0..pieces {
            assert!(version.bytes(piece.len()).await == piece);
            version.send(&piece).await;
        }
        version
    };
    let down = async {
        caller.head().await;
        for _ in 0..pieces {
            assert!(caller.bytes(piece.len()).await == piece);
        }
    };
    tokio::join!(up, version, down);
    assert_eq!(running.counted("base").await.succeeded, 1);
}

#[tokio::test]
async fn a_version_that_stops_reading_may_have_answered_all_the_same() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut caller = running.caller().await;
    caller.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf").await;
    let mut version = base.accept().await;
    version.head().await;
    version.bytes(4).await;
    version.send(ok("enough")).await;
    drop(version);
    let answer = caller.rest().await;
    assert!(answer.ends_with("\r\n\r\nenough"), "{answer}");
    assert_eq!(running.counted("base").await.succeeded, 1);
}
