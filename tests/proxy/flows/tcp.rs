use std::{net::TcpListener, time::Duration};

use proxy::{
    Limits, Measuring, Proxy,
    access_log::{AccessLog, LogTarget, Logged},
    form::TableForm,
    live::LiveTable,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::Instant,
};

use super::{echo, is_refused, service, table, tcp};
use crate::{
    deadline::DEADLINE,
    ports::free_address,
    world::{Peer, Running, SOON, Scripted, start, until, wait_until},
};

/// A proxy with one connection, which goes to the new version.
async fn connected(limits: Limits) -> (Running, std::net::SocketAddr, Scripted, Scripted, Peer, Peer) {
    let running = start(limits);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (base, new) = (Scripted::new().await, Scripted::new().await);
    running.share(1, service("tcp", at, &base.target(), &new.target(), 10_000)).await;
    let mut caller = Peer::connect(at).await;
    // Before the proxy knows of it, so that no limit can be met before.
    caller.send("early").await;
    running.proxy.listen_tcp(&listener).unwrap();
    let mut version = new.accept().await;
    assert_eq!(version.bytes(5).await, "early");
    (running, at, base, new, caller, version)
}

#[tokio::test]
async fn bytes_pass_both_ways_unchanged_and_either_end_may_close_its_direction_first() {
    const SIZE: usize = 3 * 1024 * 1024 + 7;
    let (running, _, _, _, caller, version) = connected(Limits::default()).await;
    let mut random = fastrand::Rng::with_seed(1);
    let (up, down): (Vec<u8>, Vec<u8>) = (
        std::iter::repeat_with(|| random.u8(..)).take(SIZE).collect(),
        std::iter::repeat_with(|| random.u8(..)).take(SIZE).collect(),
    );
    // Both send before either reads.
    let pass = async |peer: Peer, sent: Vec<u8>, expected: Vec<u8>| {
        let (mut from, mut to) = peer.stream.into_split();
        let sending = tokio::spawn(async move {
            to.write_all(&sent).await.unwrap();
            to.shutdown().await.unwrap();
        });
        let mut got = Vec::new();
        from.read_to_end(&mut got).await.unwrap();
        assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
        sending.await.unwrap();
    };
    tokio::join!(pass(caller, up.clone(), down.clone()), pass(version, down, up));
    running.settled().await;
    let counted = running.counted("new").await;
    assert_eq!((counted.calls, counted.succeeded, counted.failures()), (1, 1, 0));
    assert_eq!((counted.bytes_up, counted.bytes_down), (SIZE as u64 + 5, SIZE as u64));
    assert_eq!(counted.seconds.buckets.iter().sum::<u64>(), 1);
    let metrics = running.proxy.metrics().await;
    let line = format!(
        "choirmaster_proxy_bytes_total{{service=\"a\",variation=\"new\",direction=\"up\"}} {}\n",
        SIZE + 5
    );
    assert!(metrics.contains(&line), "{metrics}");
}

#[tokio::test]
async fn a_caller_that_has_said_all_may_wait_long_for_the_answer() {
    let limits = Limits { body_idle: SOON, ..Limits::default() };
    let (running, _, _, _, mut caller, mut version) = connected(limits.clone()).await;
    caller.end_sending().await;
    assert_eq!(version.rest().await, "");
    tokio::time::sleep(4 * SOON).await;
    version.send("late").await;
    version.end_sending().await;
    assert_eq!(caller.rest().await, "late");
    running.settled().await;
    // Who has heard all and says nothing more doesn't.
    let (running, _, _, _, mut caller, mut version) = connected(limits).await;
    version.end_sending().await;
    caller.gone().await;
    version.gone().await;
    running.settled().await;
}

#[tokio::test]
async fn a_connection_that_stands_still_for_too_long_is_closed() {
    let (running, _, _, _, mut caller, mut version) =
        connected(Limits { tunnel_idle: SOON, ..Limits::default() }).await;
    caller.gone().await;
    version.gone().await;
    running.settled().await;
    let counted = running.counted("new").await;
    assert_eq!((counted.calls, counted.callers_gone, counted.bytes_up), (1, 1, 5));
}

#[tokio::test]
async fn tcp_end_that_dies_closes_other_and_is_counted_correctly() {
    let (running, _, _, _, caller, mut version) = connected(Limits::default()).await;
    caller.reset();
    version.gone().await;
    running.settled().await;
    let (other, _, _, _, mut caller, version) = connected(Limits::default()).await;
    version.reset();
    // What came can't be taken for all there is.
    assert!(caller.is_reset().await);
    other.settled().await;
    let (gone, broken) = (running.counted("new").await, other.counted("new").await);
    assert_eq!((gone.callers_gone, gone.broken_off), (1, 0));
    assert_eq!((broken.callers_gone, broken.broken_off), (0, 1));
}

#[tokio::test]
async fn refused_tcp_connections_go_to_stable_and_blame_new_version() {
    let running = start(Limits::default());
    let at = tcp(&running);
    let base = Scripted::new().await;
    running.share(1, service("tcp", at, &base.target(), &free_address().to_string(), 10_000)).await;
    for _ in 0..3 {
        let mut caller = Peer::connect(at).await;
        caller.send("hello").await;
        let mut version = base.accept().await;
        assert_eq!(version.bytes(5).await, "hello");
        caller.end_sending().await;
        version.end_sending().await;
        assert_eq!(caller.rest().await, "");
    }
    running.settled().await;
    let (new, of_base) = (running.counted("new").await, running.counted("base").await);
    assert_eq!((new.calls, new.failed[0], new.repeated, new.repeats_failed), (3, 3, 3, 0));
    assert_eq!((of_base.calls, new.bytes_up), (0, 15));

    // Nobody is left, or nobody else may get it.
    let mut never = service("tcp", at, &base.target(), &free_address().to_string(), 10_000);
    never["retry"] = json!("never");
    let nobodys = service("tcp", at, &free_address().to_string(), &free_address().to_string(), 0);
    for (generation, service) in [(2, never), (3, nobodys)] {
        running.share(generation, service).await;
        assert!(is_refused(at).await);
        running.settled().await;
    }
    assert!(base.is_left_alone().await);
    let (new, of_base) = (running.counted("new").await, running.counted("base").await);
    assert_eq!((new.calls, new.failed[0], new.repeated), (4, 4, 3));
    assert_eq!((of_base.calls, of_base.failed[0]), (1, 1));
}

#[tokio::test]
async fn connections_of_one_address_stay_with_a_variation_and_others_are_drawn_by_their_shares() {
    let running = start(Limits::default());
    let at = tcp(&running);
    let (base, new) = (echo("").await, echo("").await);
    let drawn = service("tcp", at, &base.to_string(), &new.to_string(), 3_000);
    running.share(1, drawn.clone()).await;
    for _ in 0..300 {
        drop(Peer::connect(at).await);
    }
    let calls = async |variation: &str| running.counted(variation).await.calls;
    // One that its caller has left already may not have been accepted yet.
    wait_until("all are counted", async || calls("base").await + calls("new").await == 300).await;
    let (of_base, of_new) = (calls("base").await, calls("new").await);
    // Five standard deviations.
    assert!((50..=130).contains(&of_new), "{of_new}");

    let mut sticky = drawn;
    sticky["sticky"] = json!("address");
    running.share(2, sticky).await;
    for _ in 0..50 {
        drop(Peer::connect(at).await);
    }
    wait_until("all are counted", async || calls("base").await + calls("new").await == 350).await;
    let more = (calls("base").await - of_base, calls("new").await - of_new);
    assert!([(50, 0), (0, 50)].contains(&more), "{more:?}");
}

#[tokio::test]
async fn share_change_keeps_tcp_connections_and_reports_leaving_version() {
    let (running, at, base, new, mut caller, mut version) = connected(Limits::default()).await;
    let passes = async |caller: &mut Peer, version: &mut Peer| {
        caller.send("up").await;
        assert_eq!(version.bytes(2).await, "up");
        version.send("down").await;
        assert_eq!(caller.bytes(4).await, "down");
    };
    running.share(2, service("tcp", at, &base.target(), &new.target(), 0)).await;
    passes(&mut caller, &mut version).await;
    let alone = json!({
        "protocol": "tcp", "ports": [at.port()], "variations": [{"name": "base", "targets": [base.target()]}],
    });
    running.share(3, alone).await;
    let leaving = running.proxy.leaving();
    assert_eq!((leaving.len(), leaving[0].version.name(), leaving[0].version.in_flight()), (1, "new", 1));
    drop(leaving);
    passes(&mut caller, &mut version).await;
    // Without its service, too.
    running.proxy.apply(&table(4, [])).await.unwrap();
    passes(&mut caller, &mut version).await;
    caller.end_sending().await;
    version.end_sending().await;
    assert_eq!((caller.rest().await, version.rest().await), (String::new(), String::new()));
    running.settled().await;
    assert!(running.proxy.leaving().is_empty());
}

#[tokio::test]
async fn tcp_connection_without_share_is_cut_only_at_drain_deadline() {
    let (running, at, base, new, mut caller, mut version) = connected(Limits::default()).await;
    let with_drain = |share, seconds: u32| {
        let mut service = service("tcp", at, &base.target(), &new.target(), share);
        service["drain_seconds"] = json!(seconds);
        service
    };
    // A deadline means nothing as long as it gets some.
    running.share(2, with_drain(1, 0)).await;
    running.share(3, with_drain(0, 3_600)).await;
    running.share(4, with_drain(5_000, 0)).await;
    caller.send("still").await;
    assert_eq!(version.bytes(5).await, "still");
    running.share(5, with_drain(0, 3_600)).await;
    caller.send("there").await;
    assert_eq!(version.bytes(5).await, "there");
    // Sooner, now that it is said.
    running.share(6, with_drain(0, 0)).await;
    assert!(caller.is_reset().await);
    version.gone().await;
    running.settled().await;
    let counted = running.counted("new").await;
    assert_eq!((counted.calls, counted.cut, counted.failures()), (1, 1, 0));
}

#[tokio::test]
async fn a_version_that_is_named_again_with_the_same_content_keeps_its_connections() {
    let limits = Limits { flow_drain: SOON, ..Limits::default() };
    let (running, at, base, new, mut caller, mut version) = connected(limits).await;
    let without = json!({
        "protocol": "tcp", "ports": [at.port()], "variations": [{"name": "base", "targets": [base.target()]}],
        "drain_seconds": 3_600,
    });
    running.share(2, without).await;
    running.share(3, service("tcp", at, &base.target(), &new.target(), 100)).await;
    tokio::time::sleep(SOON * 2).await;
    caller.send("still").await;
    assert_eq!(version.bytes(5).await, "still");
    // That it wasn't named before takes nothing off its time.
    let left = Instant::now();
    running.proxy.apply(&table(4, [])).await.unwrap();
    caller.gone().await;
    assert!(left.elapsed() >= SOON);
}

#[tokio::test]
async fn version_connection_limit_queues_or_diverts_to_stable() {
    let limits = Limits { flows: 1, queue_time: SOON, ..Limits::default() };
    let (running, at, base, new, caller, version) = connected(limits).await;
    let mut second = Peer::connect(at).await;
    second.send("x").await;
    let mut at_base = base.accept().await;
    assert_eq!(at_base.bytes(1).await, "x");
    // Nor does that one.
    assert!(is_refused(at).await);
    drop((caller, version));
    running.settled_with(1, 1).await;
    let mut third = Peer::connect(at).await;
    third.send("y").await;
    assert_eq!(new.accept().await.bytes(1).await, "y");
}

#[tokio::test]
async fn tcp_port_without_service_closes_and_http_call_gets_404() {
    let running = start(Limits::default());
    let at = tcp(&running);
    let base = Scripted::new().await;
    assert!(is_refused(at).await);
    running.share(1, service("tcp", running.at, &base.target(), &base.target(), 0)).await;
    let mut caller = running.caller().await;
    for path in ["/a", "/"] {
        let (head, _) = caller.call(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    }
    assert!(base.is_left_alone().await);
    let metrics = running.proxy.metrics().await;
    assert!(metrics.contains("choirmaster_proxy_unserved_total{class=\"no_service\"} 3\n"), "{metrics}");
}

#[tokio::test]
async fn a_proxy_that_ends_waits_for_its_connections() {
    let (running, at, _, _, mut caller, mut version) = connected(Limits::default()).await;
    assert_eq!(running.proxy.drain(Duration::from_millis(50)).await, 1);
    // It may still be in the queue of the socket, where nobody takes it any more.
    let _late = tokio::net::TcpStream::connect(at).await;
    caller.send("on").await;
    assert_eq!(version.bytes(2).await, "on");
    drop((caller, version));
    assert_eq!(running.proxy.drain(DEADLINE).await, 0);
}

#[tokio::test]
async fn a_connection_has_a_line_in_the_access_log_with_what_passed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let access_log = AccessLog { logged: Logged::All, to: LogTarget::File(path.clone()) };
    let measuring = Measuring { access_log, ..Measuring::default() };
    let proxy = Proxy::start_measuring(1, Limits::default(), &measuring).unwrap();
    let at = proxy.listen_tcp(&TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let base = Scripted::new().await;
    proxy.apply(&table(1, [service("tcp", at, &base.target(), &base.target(), 0)])).await.unwrap();
    let mut caller = Peer::connect(at).await;
    caller.send("four").await;
    caller.end_sending().await;
    let mut version = base.accept().await;
    assert_eq!(version.rest().await, "four");
    version.send("seven!!").await;
    version.end_sending().await;
    assert_eq!(caller.rest().await, "seven!!");
    until("it has ended", || proxy.connections() == 0).await;
    proxy.flush_log().await;
    let line: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        (&line["route"], &line["variation"], &line["class"]),
        (&json!("a"), &json!("base"), &json!("success"))
    );
    assert_eq!(
        (&line["bytes_up"], &line["bytes_down"], &line["status"]),
        (&json!(4), &json!(7), &Value::Null)
    );
}

#[test]
fn what_means_nothing_to_a_service_of_flows_is_refused_by_name() {
    let none = LiveTable::empty();
    let refused = |change: Value| {
        let mut service = service("tcp", ([127, 0, 0, 1], 9).into(), "127.0.0.1:1", "127.0.0.1:2", 0);
        service.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        none.next(&table(1, [service])).unwrap_err().to_string()
    };
    let with_target =
        |target: &str| json!({"variations": [{"name": "b", "targets": [target]}], "shares": null});
    let cases = [
        (json!({"sticky": {"cookie": "c"}}), "a cookie means nothing to a service of TCP"),
        (json!({"sticky": {"header": "H"}, "protocol": "udp"}), "a header means nothing to a service of UDP"),
        (json!({"header": {"name": "X", "values": {}}}), "a header rule means nothing to a service of TCP"),
        (json!({"shadow": {"variation": "new", "share": 1}}), "a shadow means nothing to a service of TCP"),
        (json!({"hosts": ["h"]}), "a host means nothing to a service of TCP"),
        (json!({"ports": []}), "no port leads to it"),
        (json!({"ports": [], "protocol": "tls"}), "no port leads to it, and no host where it is one of TLS"),
        (json!({"proxy_protocol": "v1", "protocol": "udp"}), "a PROXY header can't stand before datagrams"),
        (json!({"drain_seconds": 2_592_001}), "`drain_seconds` is at most 2592000"),
        (json!({"drain_seconds": 1, "protocol": "http"}), "drain_seconds means nothing to a service of HTTP"),
        (
            json!({"proxy_protocol": "v2", "protocol": "http", "shadow": {"variation": "new", "share": 1}}),
            "a PROXY header can't stand before copies of calls",
        ),
        (with_target("127.0.0.1:1/below"), "the target \"127.0.0.1:1/below\" is none for TCP"),
        (
            json!({"variations": [{"name": "b", "targets": ["127.0.0.1:1"], "protocol": "h2c"}], "shares": null}),
            "h2c means nothing to a service of TCP",
        ),
    ];
    for (change, expected) in cases {
        let why = refused(change.clone());
        assert!(why.starts_with("service \"a\": ") && why.contains(expected), "{change}: {why}");
    }
    let unix =
        json!({"protocol": "udp", "variations": [{"name": "b", "targets": ["unix:/x"]}], "shares": null});
    assert!(refused(unix).contains("the target \"unix:/x\" is none for UDP"));

    // Ports of UDP have nothing in common with others but their number; those of TCP and HTTP are the same.
    let at = |protocol: &str| service(protocol, ([127, 0, 0, 1], 9).into(), "127.0.0.1:1", "127.0.0.1:2", 0);
    none.next(&table(1, [at("tcp"), at("udp")])).unwrap();
    for (one, other) in [("tcp", "tcp"), ("tcp", "tls"), ("tls", "http"), ("http", "tcp"), ("udp", "udp")] {
        let why = none.next(&table(1, [at(one), at(other)])).unwrap_err().to_string();
        assert_eq!(why, "port 9 leads to two services", "{one} {other}");
    }
}

#[test]
fn a_table_is_written_in_the_oldest_form_that_says_all_of_it() {
    let written = |services: Value| {
        let form = json!({"format": 3, "generation": 1, "services": services});
        let form: TableForm = serde_json::from_value(form).unwrap();
        let written = LiveTable::empty().next(&form).unwrap().form();
        // As it was: who reads it comes to the same.
        assert_eq!(LiveTable::empty().next(&written).unwrap().form(), written);
        (written.format, serde_json::to_value(&written.services[0]).unwrap())
    };
    let variations = json!([{"name": "b", "targets": ["127.0.0.1:1"]}]);
    assert_eq!(written(json!([{"name": "a", "variations": variations}])).0, 1);
    assert_eq!(written(json!([{"name": "a", "ports": [9], "variations": variations}])).0, 2);
    let (format, service) = written(json!([{
        "name": "a", "ports": [9], "hosts": ["One.Example"], "protocol": "tls", "proxy_protocol": "v2", "drain_seconds": 7,
        "variations": variations,
    }]));
    assert_eq!(
        (format, &service["protocol"], &service["hosts"]),
        (3, &json!("tls"), &json!(["one.example"]))
    );
    assert_eq!((&service["proxy_protocol"], &service["drain_seconds"]), (&json!("v2"), &json!(7)));
    let announced = json!([{"name": "a", "proxy_protocol": "v1", "variations": variations}]);
    assert_eq!(written(announced).0, 3);
}
