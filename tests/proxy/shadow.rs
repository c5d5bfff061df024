//! Copies of calls that a version gets for comparison alone.

use std::net::SocketAddr;

use call_metrics::Copies;
use http::Response;
use proxy::Limits;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    http2_world::{call, connect, echo, h2_version, request, speaking_h2c},
    world::{
        GET, NEVER, Peer, Running, SOON, Scripted, field, ok, start, start_with, table_of, until, version,
        wait_until,
    },
};

/// A service that copies this many hundredths of a percent of its calls to `new`, which has no share.
fn shadowed(base: &str, new: &str, share: u16) -> Value {
    json!({
        "variations": [{"name": "base", "targets": [base]}, {"name": "new", "targets": [new]}],
        "shares": [10_000, 0],
        "shadow": {"variation": "new", "share": share},
    })
}

/// The same service without copies.
fn unshadowed(base: &str, new: &str) -> Value {
    let mut service = shadowed(base, new, 1);
    service.as_object_mut().unwrap().remove("shadow");
    service
}

/// A proxy that copies all calls, the stable version, which answers `base`, the one that gets the copies, and a caller.
async fn all_shadowed(limits: Limits) -> (Running, SocketAddr, Scripted, Peer) {
    let running = start_with(1, limits);
    let (base, new) =
        (version("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase").await, Scripted::new().await);
    running.serve(shadowed(&base.to_string(), &new.target(), 10_000)).await;
    let caller = running.caller().await;
    (running, base, new, caller)
}

async fn copies(running: &Running) -> Copies {
    running.counted("new").await.copies.map_or_else(Copies::default, |copies| *copies)
}

/// Waits until so many copies have ended.
async fn copied(running: &Running, calls: u64) -> Copies {
    wait_until("copies have ended", async || copies(running).await.calls >= calls).await;
    copies(running).await
}

fn assert_adds_up(copies: &Copies) {
    assert_eq!(copies.outcomes().iter().map(|(_, count)| count).sum::<u64>(), copies.calls, "{copies:?}");
    assert_eq!(copies.times.count(), copies.seconds.buckets.iter().sum::<u64>());
    assert_eq!(copies.times.sum_us(), copies.seconds.sum_us);
}

/// Has a call answered by the stable version, so that it is copied.
async fn answer_base(caller: &mut Peer, at_base: &mut Peer, answer: &str) -> String {
    caller.send(GET).await;
    at_base.head().await;
    at_base.send(answer).await;
    caller.answer().await.1
}

#[tokio::test]
async fn a_copy_is_compared_with_what_its_caller_got_and_nobody_gets_its_answer() {
    let running = start_with(1, Limits::default());
    let (base, new) = (Scripted::new().await, Scripted::new().await);
    running.serve(shadowed(&base.target(), &new.target(), 10_000)).await;
    let mut caller = running.caller().await;
    caller.send("GET /a/b?c HTTP/1.1\r\nHost: here\r\nX-Choirmaster-Shadow: 1\r\nX-Own: yes\r\n\r\n").await;
    let mut at_base = base.accept().await;
    let head = at_base.head().await;
    assert_eq!((field(&head, "x-choirmaster-shadow"), field(&head, "x-own")), (None, Some("yes")));
    // The caller has its answer before there is a copy.
    assert!(new.is_left_alone().await);
    at_base.send(ok("one")).await;
    let (answer, body) = caller.answer().await;
    assert_eq!((field(&answer, "x-choirmaster-version"), body.as_str()), (Some("base"), "one"));
    let mut at_new = new.accept().await;
    let copy = at_new.head().await;
    assert_eq!(copy, head.replace("\r\n\r\n", "\r\nX-Choirmaster-Shadow: 1\r\n\r\n"));

    let answers = [
        // The same in chunks is the same.
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n2\r\nne\r\n0\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\none!",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\none",
        "HTTP/1.1 503 Broken\r\nContent-Length: 3\r\n\r\none",
        "nonsense\r\n\r\n",
    ];
    for (at, answer) in answers.iter().enumerate() {
        at_new.send(answer).await;
        copied(&running, at as u64 + 1).await;
        if at + 1 < answers.len() {
            assert_eq!(answer_base(&mut caller, &mut at_base, &ok("one")).await, "one");
            at_new = new.accept().await;
            at_new.head().await;
        }
    }
    let copies = copies(&running).await;
    assert_adds_up(&copies);
    assert_eq!(
        [copies.calls, copies.same, copies.other_body, copies.other_status, copies.errors],
        [7, 2, 2, 2, 1]
    );
    assert_eq!((copies.failed, copies.dropped, copies.times.count()), ([0, 0, 0, 1, 0], 0, 4));
    // None of them is a call of the split.
    assert_eq!((running.counted("new").await.calls, running.counted("base").await.calls), (0, 7));
    let metrics = running.proxy.metrics().await;
    for line in [
        "shadow_calls_total{service=\"a\",variation=\"new\",class=\"other_body\"} 2",
        "shadow_calls_total{service=\"a\",variation=\"new\",class=\"failed\"} 1",
        "shadow_errors_total{service=\"a\",variation=\"new\"} 1",
        "shadow_dropped_total{service=\"a\",variation=\"new\"} 0",
        "shadow_seconds_count{service=\"a\",variation=\"new\"} 4",
        "calls_total{service=\"a\",variation=\"new\",class=\"success\"} 0",
    ] {
        assert!(metrics.contains(&format!("choirmaster_proxy_{line}\n")), "{line}\n{metrics}");
    }
}

#[tokio::test]
async fn calls_with_side_effects_or_a_body_are_never_copied() {
    let running = start_with(1, Limits::default());
    let (base, new) = (version("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await, Scripted::new().await);
    running.serve(shadowed(&base.to_string(), &new.target(), 10_000)).await;
    let mut caller = running.caller().await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"] {
        let (head, _) = caller.call(format!("{method} /a HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        assert!(head.starts_with("HTTP/1.1 200 "));
    }
    let upgrade = "GET /a/up HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    caller.call(upgrade).await;
    // What comes first is the first call that can be copied.
    for method in ["HEAD", "OPTIONS", "GET"] {
        caller.send(format!("{method} /a HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        caller.head().await;
        let mut at_new = new.accept().await;
        assert!(at_new.head().await.starts_with(&format!("{method} / HTTP/1.1\r\n")));
        at_new.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
        at_new.gone().await;
    }
    let copies = copied(&running, 3).await;
    assert_eq!((copies.calls, copies.same), (3, 3));

    // A body is sent to nobody twice.
    let (echo, next) = (echo().await, Scripted::new().await);
    let table = table_of(2, shadowed(&echo.to_string(), &next.target(), 10_000));
    running.proxy.apply(&table).await.unwrap();
    caller.call("GET /a/with HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi").await;
    caller.call("GET /a/without HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert!(next.accept().await.head().await.starts_with("GET /without "));
}

#[tokio::test]
async fn hanging_shadow_delays_no_caller_and_ends_with_its_table() {
    let (running, base, new, mut caller) =
        all_shadowed(Limits { first_byte: NEVER, ..Limits::default() }).await;
    for _ in 0..100 {
        assert_eq!(caller.call(GET).await.1, "base");
    }
    // Four are made at once, sixteen wait, and the others found no place.
    let mut hanging = Vec::new();
    for _ in 0..4 {
        let mut at_new = new.accept().await;
        at_new.head().await;
        hanging.push(at_new);
    }
    assert!(new.is_left_alone().await);
    let so_far = copies(&running).await;
    assert_eq!((so_far.calls, so_far.dropped), (0, 80));
    // A change of shares leaves them as they are, with the version that they are for.
    let mut service = shadowed(&base.to_string(), &new.target(), 10_000);
    service["shares"] = json!([9_999, 1]);
    running.proxy.apply(&table_of(2, service)).await.unwrap();
    hanging[0].send(ok("base")).await;
    hanging[0].head().await;
    assert_eq!(copied(&running, 1).await.same, 1);
    // The version goes: nobody waits for what is under way, and nothing more is begun.
    let only_base = json!({"variations": [{"name": "base", "targets": [base.to_string()]}]});
    running.proxy.apply(&table_of(3, only_base)).await.unwrap();
    until("the version is drained", || running.proxy.leaving().is_empty()).await;
    for mut at_new in hanging {
        at_new.gone().await;
    }
    let copies = copied(&running, 5).await;
    assert_adds_up(&copies);
    assert_eq!((copies.same, copies.cut, copies.dropped), (1, 4, 95));
    assert_eq!(caller.call(GET).await.1, "base");
    assert!(new.is_left_alone().await);
}

#[tokio::test]
async fn a_shadow_without_an_answer_is_given_up_in_time() {
    let (running, _, new, mut caller) = all_shadowed(Limits { first_byte: SOON, ..Limits::default() }).await;
    // One says nothing, and one never comes to the end of its answer.
    for said in ["", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nba"] {
        // The stable version may be late as well; that call isn't copied.
        wait_until("a call is copied", async || caller.call(GET).await.1 == "base").await;
        let mut late = new.accept().await;
        // It may be given up already.
        let _ = late.next_head().await;
        let _ = late.stream.write_all(said.as_bytes()).await;
        late.gone().await;
    }
    let copies = copied(&running, 2).await;
    assert_adds_up(&copies);
    // Refused, died, timed out, nonsense, status.
    assert_eq!(copies.failed, [0, 0, 2, 0, 0]);
    // One leaves, and to the next nobody listens.
    let (running, _, new, mut caller) = all_shadowed(Limits::default()).await;
    caller.call(GET).await;
    drop(new.accept().await);
    copied(&running, 1).await;
    drop(new);
    caller.call(GET).await;
    let copies = copied(&running, 2).await;
    assert_adds_up(&copies);
    assert_eq!(copies.failed, [1, 1, 0, 0, 0]);
}

#[tokio::test]
async fn of_a_huge_answer_no_more_is_read_than_is_compared() {
    let running = start_with(1, Limits::default());
    let (base, new) = (Scripted::new().await, Scripted::new().await);
    running.serve(shadowed(&base.target(), &new.target(), 10_000)).await;
    let mut caller = running.caller().await;
    let long = "x".repeat(300 * 1024);
    caller.send(GET).await;
    let mut at_base = base.accept().await;
    let answers = async {
        at_base.head().await;
        at_base.send(ok(&long)).await;
    };
    let ((), (_, body)) = tokio::join!(answers, caller.answer());
    assert_eq!(body.len(), long.len());
    // A terabyte, which is the same as far as anybody looks.
    let mut at_new = new.accept().await;
    at_new.head().await;
    at_new.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n").await;
    flood(&mut at_new, b"x").await;
    assert_eq!(copied(&running, 1).await.same_beginning, 1);
    // Of a small one it is another.
    assert_eq!(answer_base(&mut caller, &mut at_base, &ok("small")).await, "small");
    let mut at_new = new.accept().await;
    at_new.head().await;
    at_new.send("HTTP/1.1 200 OK\r\n\r\nsmall").await;
    flood(&mut at_new, b"x").await;
    let copies = copied(&running, 2).await;
    assert_adds_up(&copies);
    assert_eq!((copies.same_beginning, copies.other_body), (1, 1));
}

/// Sends the same for ever, until the other end has enough.
async fn flood(to: &mut Peer, byte: &[u8]) {
    let piece = byte.repeat(64 * 1024);
    while to.stream.write_all(&piece).await.is_ok() {}
}

#[tokio::test]
async fn of_half_of_all_calls_half_are_copied_and_of_none_none() {
    const CALLS: u64 = 400;
    let running = start(Limits::default());
    let base = version("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase").await;
    let service = shadowed(&base.to_string(), &base.to_string(), 5_000);
    running.serve(service).await;
    let mut caller = running.caller().await;
    for _ in 0..CALLS {
        caller.call(GET).await;
    }
    let of_all = |copies: &Copies| copies.calls + copies.dropped;
    let none = shadowed(&base.to_string(), &base.to_string(), 0);
    running.proxy.apply(&table_of(2, none)).await.unwrap();
    wait_until("no copy is left", async || {
        let before = of_all(&copies(&running).await);
        caller.call(GET).await;
        of_all(&copies(&running).await) == before
    })
    .await;
    // Below one in a million outside of this.
    let drawn = copies(&running).await;
    assert!((150..=250).contains(&of_all(&drawn)), "{drawn:?}");
    assert_eq!(drawn.same + drawn.cut, drawn.calls);
    for _ in 0..50 {
        caller.call(GET).await;
    }
    assert_eq!(of_all(&copies(&running).await), of_all(&drawn));
}

#[tokio::test]
async fn calls_over_http2_are_copied_as_well() {
    let running = start(Limits::default());
    // It answers with the head that it got.
    let (base, new) = (echo().await, Scripted::new().await);
    running.serve(shadowed(&base.to_string(), &new.target(), 10_000)).await;
    let caller = connect(running.at).await;
    let mut got = String::new();
    for method in ["POST", "GET"] {
        let mut request = request(method, "/a/b?c");
        request.headers_mut().insert("x-choirmaster-shadow", "1".parse().unwrap());
        got = call(&caller, request, "").await.unwrap().text().to_owned();
        assert_eq!(field(&got, "x-choirmaster-shadow"), None);
    }
    let mut at_new = new.accept().await;
    let head = at_new.head().await;
    assert!(head.starts_with("GET /b?c HTTP/1.1\r\n"), "{head}");
    assert_eq!(head, got.replace("\r\n\r\n", "\r\nX-Choirmaster-Shadow: 1\r\n\r\n"));
    at_new.send(ok(&got)).await;
    assert_eq!(copied(&running, 1).await.same, 1);
}

#[tokio::test]
async fn what_a_stable_version_answers_over_http2_is_compared_as_well() {
    let running = start(Limits::default());
    let base = h2_version(|_, mut respond| async move {
        let mut stream = respond.send_response(Response::new(()), false).unwrap();
        stream.send_data("ba".into(), false).unwrap();
        stream.send_data("se".into(), true).unwrap();
    });
    let (base, new) = (base.await, Scripted::new().await);
    let table = table_of(1, shadowed(&base.to_string(), &new.target(), 10_000));
    running.proxy.apply(&speaking_h2c(table, &["base"])).await.unwrap();
    let mut caller = running.caller().await;
    for (answer, same, other) in [("base", 1, 0), ("new!", 1, 1)] {
        caller.send("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await;
        assert!(caller.rest().await.contains("base"));
        let mut at_new = new.accept().await;
        assert_eq!(field(&at_new.head().await, "x-choirmaster-shadow"), Some("1"));
        at_new.send(ok(answer)).await;
        let copies = copied(&running, same + other).await;
        assert_eq!((copies.same, copies.other_body), (same, other));
        caller = running.caller().await;
    }
}

#[tokio::test]
async fn a_table_says_which_variation_shadows_and_one_that_cannot_is_refused() {
    let running = start_with(1, Limits::default());
    let (base, new) = ("127.0.0.1:9", "127.0.0.1:10");
    let fine = table_of(1, shadowed(base, new, 7));
    let in_force = running.proxy.apply(&fine).await.unwrap();
    assert_eq!(in_force.form().services[0].shadow, fine.services[0].shadow);
    assert!(running.proxy.apply(&table_of(1, unshadowed(base, new))).await.is_err());
    for (variation, share, expected) in [
        ("base", 1, "the shadow \"base\" is none"),
        ("other", 1, "the shadow \"other\" is none"),
        ("new", 10_001, "the shadow gets 10001 hundredths"),
    ] {
        let mut service = shadowed(base, new, share);
        service["shadow"]["variation"] = json!(variation);
        let fault = running.proxy.apply(&table_of(2, service)).await.unwrap_err().to_string();
        assert!(fault.contains(expected), "{fault}");
    }
    let mut service = shadowed(base, new, 1);
    service["variations"][1]["protocol"] = json!("h2c");
    let fault = running.proxy.apply(&table_of(2, service)).await.unwrap_err().to_string();
    assert!(fault.contains("speaks HTTP/1.1"), "{fault}");
}
