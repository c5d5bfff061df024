//! PROXY headers, those that are believed and those that are sent.

use std::net::SocketAddr;

use proptest::prelude::*;
use proxy::{
    Limits,
    proxy_protocol::{Announced, MAX_HEADER, Network, Parsed, parse},
};
use serde_json::json;

use super::{service, tcp};
use crate::world::{GET, Peer, Running, SOON, Scripted, field, ok, start, start_with};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn networks(text: &str) -> Vec<Network> {
    text.split(' ').map(|one| one.parse().unwrap()).collect()
}

/// A header of version 2.
fn binary(command: u8, family: u8, addresses: &[u8], more: &[u8]) -> Vec<u8> {
    let length = (addresses.len() + more.len()) as u16;
    [SIGNATURE, &[0x20 | command, family], &length.to_be_bytes(), addresses, more].concat()
}

/// Of 192.0.2.1:4660 to 198.51.100.2:443.
const V4: &[u8] = &[192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x34, 0x01, 0xbb];

fn trusting(limits: Limits) -> Running {
    let running = start_with(1, limits);
    running.proxy.expect_headers_from(&networks("10.0.0.0/8 127.0.0.0/8"));
    running
}

/// The address that a version is told, of a caller who sends this in front of its call.
async fn told(running: &Running, base: &Scripted, version: &mut Option<Peer>, header: &[u8]) -> String {
    let mut caller = running.caller().await;
    caller.send([header, GET.as_bytes()].concat()).await;
    let version = match version {
        Some(version) => version,
        None => version.insert(base.accept().await),
    };
    let head = version.head().await;
    version.send(ok("")).await;
    caller.answer().await;
    field(&head, "x-forwarded-for").unwrap().to_owned()
}

#[tokio::test]
async fn the_caller_is_who_the_header_says_where_it_is_believed() {
    let running = trusting(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut version = None;
    let v6: Vec<u8> =
        [[0x20, 1, 0xd, 0xb8].as_slice(), &[0; 11], &[9], &[0; 15], &[1], &[0, 1, 0, 2]].concat();
    for (header, address) in [
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\r\n".to_vec(), "192.0.2.1"),
        (b"PROXY TCP6 2001:db8::9 ::1 1 65535\r\n".to_vec(), "2001:db8::9"),
        (b"PROXY TCP6 ::ffff:192.0.2.9 ::1 1 65535\r\n".to_vec(), "192.0.2.9"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (b"PROXY UNKNOWN ffff:f...f:ffff 1 2 and more\r\n".to_vec(), "127.0.0.1"),
        (binary(1, 0x11, V4, b""), "192.0.2.1"),
        (binary(1, 0x11, V4, &[4, 0, 3, b'a', b'b', b'c']), "192.0.2.1"),
        (binary(1, 0x21, &v6, b""), "2001:db8::9"),
        // A check of whoever passes connections on, and addresses that aren't any here.
        (binary(0, 0x00, b"", b""), "127.0.0.1"),
        (binary(0, 0x11, V4, b""), "127.0.0.1"),
        (binary(1, 0x00, b"", b"xyz"), "127.0.0.1"),
        (binary(1, 0x31, &[b'/'; 216], b""), "127.0.0.1"),
    ] {
        let shown = String::from_utf8_lossy(&header).into_owned();
        assert_eq!(told(&running, &base, &mut version, &header).await, address, "{shown}");
    }
}

#[tokio::test]
async fn a_header_may_come_in_any_pieces() {
    let running = trusting(Limits::default());
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    for header in [b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\r\n".to_vec(), binary(1, 0x11, V4, b"more")] {
        let mut caller = running.caller().await;
        for byte in [header.as_slice(), GET.as_bytes()].concat() {
            caller.send([byte]).await;
            tokio::task::yield_now().await;
        }
        let mut version = base.accept().await;
        let head = version.head().await;
        assert_eq!(field(&head, "x-forwarded-for"), Some("192.0.2.1"));
        version.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
        caller.answer().await;
    }
}

#[tokio::test]
async fn a_header_that_is_missing_or_malformed_ends_the_connection_and_reaches_nobody() {
    let running = trusting(Limits::default());
    let at = tcp(&running);
    let base = Scripted::new().await;
    let services = [
        json!({"variations": [{"name": "base", "targets": [base.target()]}]}),
        service("tcp", at, &base.target(), &base.target(), 0),
    ];
    running.proxy.apply(&super::table(1, services)).await.unwrap();
    let mut wrong_version = binary(1, 0x11, V4, b"");
    wrong_version[12] = 0x11;
    let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 100], b"\r\n"].concat();
    let malformed: Vec<Vec<u8>> = vec![
        GET.into(),
        b"SSH-2.0-something that speaks first\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 4660\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 443 1\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1  198.51.100.2 4660 443\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.256 198.51.100.2 4660 443\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 65536\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 +4660 443\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 04660 443\r\n".to_vec(),
        b"PROXY TCP4 2001:db8::9 ::1 4660 443\r\n".to_vec(),
        b"PROXY UDP4 192.0.2.1 198.51.100.2 4660 443\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\n".to_vec(),
        b"proxy TCP4 192.0.2.1 198.51.100.2 4660 443\r\n".to_vec(),
        long,
        wrong_version,
        binary(2, 0x11, V4, b""),
        binary(1, 0x12, V4, b""),
        binary(1, 0x41, V4, b""),
        binary(1, 0x11, &V4[..11], b""),
        binary(1, 0x21, V4, b""),
        binary(1, 0x11, V4, &vec![0; MAX_HEADER]),
    ];
    for header in &malformed {
        for at in [running.at, at] {
            let mut caller = Peer::connect(at).await;
            caller.send(header).await;
            caller.gone().await;
        }
    }
    running.settled().await;
    assert!(base.is_left_alone().await);
    let refused = format!("choirmaster_proxy_unserved_total{{class=\"refused\"}} {}\n", 2 * malformed.len());
    assert!(running.proxy.metrics().await.contains(&refused));
}

#[tokio::test]
async fn a_header_that_does_not_come_whole_in_time_ends_the_connection() {
    let running = trusting(Limits { handshake: SOON, ..Limits::default() });
    for part in [b"".as_slice(), b"PRO", b"PROXY TCP4 192", SIGNATURE] {
        let mut caller = running.caller().await;
        caller.send(part).await;
        caller.gone().await;
    }
    running.settled().await;
}

#[tokio::test]
async fn anybody_elses_header_is_none() {
    let running = start(Limits::default());
    running.proxy.expect_headers_from(&networks("10.0.0.0/8 2001:db8::/32 127.0.0.2"));
    let base = Scripted::new().await;
    running.serve_base(&base).await;
    let mut version = None;
    assert_eq!(told(&running, &base, &mut version, b"").await, "127.0.0.1");
    let mut caller = running.caller().await;
    caller.send(b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\r\n").await;
    caller.send(GET).await;
    let head = caller.head().await;
    assert!(head.starts_with("HTTP/1.1 505 "), "{head}");
}

#[tokio::test]
async fn connections_stay_with_a_variation_by_the_address_that_the_header_says() {
    let running = trusting(Limits::default());
    let at = tcp(&running);
    let (base, new) = (super::echo("base").await, super::echo("newer").await);
    let mut shared = service("tcp", at, &base.to_string(), &new.to_string(), 5_000);
    shared["sticky"] = json!("address");
    running.share(1, shared).await;
    let mut of_new = 0;
    for host in 0..40 {
        let mut said = Vec::new();
        for port in [1, 2, 3] {
            let mut caller = Peer::connect(at).await;
            caller.send(format!("PROXY TCP4 192.0.2.{host} 198.51.100.2 {port} 443\r\n")).await;
            caller.end_sending().await;
            said.push(caller.rest().await);
        }
        assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
        of_new += usize::from(said[0] == "newer");
    }
    assert!((8..=32).contains(&of_new), "{of_new}");
}

#[tokio::test]
async fn each_connection_to_a_service_that_wants_it_begins_with_the_callers_header() {
    let running = start_with(1, Limits::default());
    let at = tcp(&running);
    let base = Scripted::new().await;
    let mut wanting = service("tcp", at, &base.target(), &base.target(), 0);
    wanting["proxy_protocol"] = json!("v1");
    running.share(1, wanting.clone()).await;
    let mut caller = Peer::connect(at).await;
    caller.send("payload").await;
    let own = caller.stream.local_addr().unwrap();
    let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\npayload", own.port(), at.port());
    assert_eq!(base.accept().await.bytes(expected.len()).await, expected);

    wanting["proxy_protocol"] = json!("v2");
    running.share(2, wanting).await;
    let mut caller = Peer::connect(at).await;
    let own = caller.stream.local_addr().unwrap();
    caller.send("payload").await;
    let mut version = base.accept().await;
    let mut header = [0; 28];
    tokio::io::AsyncReadExt::read_exact(&mut version.stream, &mut header).await.unwrap();
    let announced = Announced::From { source: own, destination: at };
    assert_eq!(parse(&header), Ok(Parsed::Whole(announced)));
    assert_eq!(version.bytes(7).await, "payload");
}

#[tokio::test]
async fn a_call_goes_over_no_connection_that_was_announced_as_another_callers() {
    let running = trusting(Limits::default());
    let base = Scripted::new().await;
    let wanting = |generation: u64, of: &str| {
        let service =
            json!({"variations": [{"name": "base", "targets": [base.target()]}], "proxy_protocol": of});
        super::table(generation, [service])
    };
    running.proxy.apply(&wanting(1, "v1")).await.unwrap();
    for host in 1..4 {
        let mut caller = running.caller().await;
        caller.send(format!("PROXY TCP4 192.0.2.{host} 198.51.100.2 4660 443\r\n")).await;
        // Neither of two callers, nor of two calls: nobody knows who is behind the second one.
        for _ in 0..2 {
            caller.send(GET).await;
            let mut version = base.accept().await;
            let line = format!("PROXY TCP4 192.0.2.{host} 198.51.100.2 4660 443\r\n");
            assert_eq!(version.bytes(line.len()).await, line);
            assert_eq!(field(&version.head().await, "x-forwarded-for"), Some(&*format!("192.0.2.{host}")));
            version.send(ok("x")).await;
            assert_eq!(caller.answer().await.1, "x");
            version.gone().await;
        }
    }
    // A table in which it is another version's content that is the same begins with others.
    running.proxy.apply(&wanting(2, "v2")).await.unwrap();
    let mut caller = running.caller().await;
    caller.send(b"PROXY UNKNOWN\r\n").await;
    caller.send(GET).await;
    let mut version = base.accept().await;
    let mut begins = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut version.stream, &mut begins).await.unwrap();
    assert_eq!(begins, SIGNATURE);
}

#[test]
fn networks_hold_addresses_that_begin_alike() {
    for (network, holds, not) in [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
        ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
        ("0.0.0.0/0", "255.255.255.255", "::1"),
        ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
        ("::/0", "::1", "10.0.0.1"),
        ("10.1.2.3/32", "::ffff:10.1.2.3", "::10.1.2.3"),
    ] {
        let network: Network = network.parse().unwrap();
        assert!(network.contains(holds.parse().unwrap()), "{network} {holds}");
        assert!(!network.contains(not.parse().unwrap()), "{network} {not}");
        assert_eq!(network.to_string().parse::<Network>(), Ok(network));
    }
    for text in [
        "",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "::1/64",
        "localhost",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "::ffff:10.0.0.0/104",
        "10/8",
    ] {
        assert!(text.parse::<Network>().is_err(), "{text}");
    }
}

/// A whole header, and what it says.
fn a_header() -> impl Strategy<Value = (Vec<u8>, Announced)> {
    let v4 = (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>(), any::<u16>());
    (v4, any::<bool>(), prop::collection::vec(any::<u8>(), 0..50)).prop_map(
        |((from, to, from_port, to_port), is_text, more)| {
            let (source, destination) =
                (SocketAddr::from((from, from_port)), SocketAddr::from((to, to_port)));
            let announced = Announced::From { source, destination };
            let header = if is_text {
                let (from, to) = (source.ip(), destination.ip());
                format!("PROXY TCP4 {from} {to} {from_port} {to_port}\r\n").into_bytes()
            } else {
                let addresses =
                    [from.as_slice(), &to, &from_port.to_be_bytes(), &to_port.to_be_bytes()].concat();
                binary(1, 0x11, &addresses, &more)
            };
            (header, announced)
        },
    )
}

proptest! {
    #[test]
    fn a_header_is_read_however_it_is_cut_and_never_beyond_its_end((header, announced) in a_header()) {
        let mut came = 0;
        loop {
            match parse(&header[..came]).unwrap() {
                Parsed::Whole(said) => {
                    prop_assert_eq!((came, said), (header.len(), announced));
                    break;
                }
                Parsed::Needs(more) => {
                    prop_assert!(more > 0 && came + more <= header.len());
                    came += more;
                }
                Parsed::NeedsLine(most) => {
                    let line = header[came..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
                    prop_assert!(line <= most);
                    came += line;
                }
            }
        }
        for cut in 0..header.len() {
            prop_assert!(!matches!(parse(&header[..cut]), Ok(Parsed::Whole(_)) | Err(_)));
        }
    }

    #[test]
    fn whatever_comes_is_judged_and_asks_for_no_more_than_a_header_may_have(
        (mut header, _) in a_header(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let at = at.index(header.len());
        header[at] = byte;
        header.truncate(cut.index(header.len()) + 1);
        if let Ok(Parsed::Needs(more) | Parsed::NeedsLine(more)) = parse(&header) {
            prop_assert!(header.len() + more <= MAX_HEADER);
        }
    }
}
