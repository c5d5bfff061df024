//! TLS that passes unopened.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use proxy::Limits;
use rustls::{ClientConfig, ClientConnection, ServerConfig};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::table;
use crate::{
    tls::{Authority, client},
    world::{Peer, Running, SOON, Scripted, start},
};

fn pass_through(running: &Running) -> SocketAddr {
    running.proxy.listen_pass_through(&TcpListener::bind("127.0.0.1:0").unwrap()).unwrap()
}

fn to(target: SocketAddr, keys: &Value) -> Value {
    let mut service =
        json!({"protocol": "tls", "variations": [{"name": "base", "targets": [target.to_string()]}]});
    service.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    service
}

/// A version that ends TLS itself, and says its name to everybody.
async fn ending_tls(authority: &Authority, name: &'static str) -> SocketAddr {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
    let (certificate, key) = authority.sign(name);
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                stream.write_all(name.as_bytes()).await?;
                stream.shutdown().await
            });
        }
    });
    at
}

async fn dial(at: SocketAddr, name: &str, config: ClientConfig) -> std::io::Result<String> {
    let stream = TcpStream::connect(at).await?;
    let name = name.to_owned().try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    Ok(said)
}

/// The first message of a caller of this name, as one record.
fn hello(name: &str) -> Vec<u8> {
    let config = client(Authority::new("nobody").roots(), &["h2"], None);
    let mut connection =
        ClientConnection::new(Arc::new(config), name.to_owned().try_into().unwrap()).unwrap();
    let mut record = Vec::new();
    connection.write_tls(&mut record).unwrap();
    assert_eq!((record[0], record.len()), (22, 5 + usize::from(u16::from_be_bytes([record[3], record[4]]))));
    record
}

/// The same message in records of so many bytes.
fn in_records(record: &[u8], size: usize) -> Vec<u8> {
    let records = record[5..].chunks(size);
    records
        .flat_map(|part| [&[22, 3, 1], (part.len() as u16).to_be_bytes().as_slice(), part].concat())
        .collect()
}

/// A message of before anybody thought of this one, as an old program would make it: GREASE wherever there may be some, TLS 1.2 at most.
fn greased(name: &str) -> Vec<u8> {
    let extension = |kind: u16, content: &[u8]| {
        [&kind.to_be_bytes(), (content.len() as u16).to_be_bytes().as_slice(), content].concat()
    };
    let listed = |content: &[u8]| [(content.len() as u16).to_be_bytes().as_slice(), content].concat();
    let host = [&[0], listed(name.as_bytes()).as_slice()].concat();
    let extensions = [
        extension(0x1a1a, b""),
        extension(0, &listed(&host)),
        extension(13, &listed(&[4, 3, 8, 4, 4, 1])),
        extension(10, &listed(&[0x2a, 0x2a, 0, 29, 0, 23])),
        extension(11, &[1, 0]),
        extension(0xaaaa, &[0]),
    ]
    .concat();
    let body = [
        [3, 3].as_slice(),
        &[7; 32],
        &[0],
        &listed(&[0x0a, 0x0a, 0xc0, 0x2f, 0xc0, 0x2b]),
        &[1, 0],
        &listed(&extensions),
    ]
    .concat();
    let message = [&[1, 0], (body.len() as u16).to_be_bytes().as_slice(), &body].concat();
    in_records(&[[0; 5].as_slice(), &message].concat(), 16_384)
}

#[tokio::test]
async fn tls_passes_unopened_to_the_service_that_the_caller_names() {
    let running = start(Limits::default());
    let at = pass_through(&running);
    let authority = Authority::new("of all versions");
    let (one, two) =
        (ending_tls(&authority, "one.example").await, ending_tls(&authority, "two.example").await);
    let services = [to(one, &json!({"hosts": ["One.Example"]})), to(two, &json!({"hosts": ["two.example"]}))];
    running.proxy.apply(&table(1, services)).await.unwrap();
    let config = || client(authority.roots(), &[], None);
    for name in ["one.example", "two.example", "ONE.example"] {
        // The certificate is the version's: its handshake went through whole.
        assert_eq!(dial(at, name, config()).await.unwrap(), name.to_ascii_lowercase());
    }
    let error = dial(at, "three.example", config()).await.unwrap_err().to_string();
    assert!(error.contains("UnrecognisedName"), "{error}");
    running.settled().await;
    let unserved = "choirmaster_proxy_unserved_total{class=\"no_service\"} 1\n";
    assert!(running.proxy.metrics().await.contains(unserved));
    // These names lead nobody there who speaks HTTP.
    let (head, _) = running.caller().await.call("GET /a HTTP/1.1\r\nHost: one.example\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
}

#[tokio::test]
async fn tls_without_known_server_name_uses_default_service_of_port() {
    let running = start(Limits::default());
    let (at, other) = (pass_through(&running), pass_through(&running));
    let (named, default) = (Scripted::new().await, Scripted::new().await);
    let services =
        [to(named.at, &json!({"hosts": ["one.example"]})), to(default.at, &json!({"ports": [at.port()]}))];
    running.proxy.apply(&table(1, services)).await.unwrap();
    for name in ["127.0.0.1", "unknown.example"] {
        let mut caller = Peer::connect(at).await;
        caller.send(hello(name)).await;
        default.accept().await;
        let mut caller = Peer::connect(other).await;
        caller.send(hello(name)).await;
        let mut alert = [0; 7];
        caller.stream.read_exact(&mut alert).await.unwrap();
        assert_eq!(alert, [21, 3, 3, 0, 2, 2, 112]);
        caller.gone().await;
    }
    let mut caller = Peer::connect(at).await;
    caller.send(hello("one.example")).await;
    named.accept().await;
    assert!(default.is_left_alone().await && named.is_left_alone().await);
}

#[tokio::test]
async fn a_first_message_in_any_records_and_pieces_passes_as_it_came() {
    let running = start(Limits::default());
    let at = pass_through(&running);
    let base = Scripted::new().await;
    running.proxy.apply(&table(1, [to(base.at, &json!({"hosts": ["one.example"]}))])).await.unwrap();
    let whole = hello("one.example");
    let greased = greased("one.example");
    let mut cases = vec![(whole.clone(), usize::MAX), (greased.clone(), usize::MAX), (greased.clone(), 1)];
    for (size, piece) in [(1, 7), (2, usize::MAX), (50, 1), (100, 64), (200, 3)] {
        cases.push((in_records(&whole, size), piece));
        cases.push((in_records(&greased, size), piece));
    }
    for (records, piece) in cases {
        let mut caller = Peer::connect(at).await;
        for part in records.chunks(piece.min(records.len())) {
            caller.send(part).await;
            tokio::task::yield_now().await;
        }
        caller.send([23, 3, 3, 0, 1, 0]).await;
        let mut version = base.accept().await;
        let mut came = vec![0; records.len() + 6];
        version.stream.read_exact(&mut came).await.unwrap();
        assert!(came == [records.as_slice(), &[23, 3, 3, 0, 1, 0]].concat());
        version.send("answer").await;
        assert_eq!(caller.bytes(6).await, "answer");
    }
}

#[tokio::test]
async fn connection_without_valid_client_hello_reaches_no_version() {
    let running = start(Limits::default());
    let at = pass_through(&running);
    let base = Scripted::new().await;
    // Not even the default.
    running.proxy.apply(&table(1, [to(base.at, &json!({"ports": [at.port()]}))])).await.unwrap();
    let mut twice = greased("one.example");
    let at_name = twice.windows(11).position(|part| part == b"one.example").unwrap();
    twice[at_name + 3] = b'/';
    let endless = in_records(&[[0; 5].as_slice(), &[1, 1, 0, 0], &vec![0; 70_000]].concat(), 16_384);
    let cases = [
        b"GET / HTTP/1.1\r\nHost: one.example\r\n\r\n".to_vec(),
        b"\x80\x2e\x01\0\x02 of SSL 2, which had other first messages".to_vec(),
        [23, 3, 3, 0, 1, 0].to_vec(),
        in_records(&[0, 0, 0, 0, 0, 2, 0, 0, 0], 100),
        [22, 3, 1, 255, 255, 1, 0].to_vec(),
        twice,
        endless,
    ];
    for case in &cases {
        let mut caller = Peer::connect(at).await;
        // It may be closed before all is sent.
        let _ = caller.stream.write_all(case).await;
        caller.gone().await;
    }
    running.settled().await;
    assert!(base.is_left_alone().await);
    let refused = format!("choirmaster_proxy_unserved_total{{class=\"refused\"}} {}\n", cases.len());
    assert!(running.proxy.metrics().await.contains(&refused), "{}", running.proxy.metrics().await);
}

#[tokio::test]
async fn whatever_comes_first_ends_or_passes_whole() {
    const MUTATIONS: u64 = 400;
    let running = start(Limits::default());
    let at = pass_through(&running);
    let base = super::echo("").await;
    running.proxy.apply(&table(1, [to(base, &json!({"ports": [at.port()]}))])).await.unwrap();
    let (whole, greased) = (hello("one.example"), greased("one.example"));
    let mut passed = 0;
    for seed in 0..MUTATIONS {
        let mut random = fastrand::Rng::with_seed(seed);
        let of = if random.bool() { &whole } else { &greased };
        let mut records = in_records(of, random.usize(20..of.len()));
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..records.len());
            records[at] = random.u8(..);
        }
        let mut caller = Peer::connect(at).await;
        let _ = caller.stream.write_all(&records).await;
        let _ = caller.stream.shutdown().await;
        let mut came = Vec::new();
        let _ = caller.stream.read_to_end(&mut came).await;
        // An alert of the proxy's, nothing, or all that was sent, which the version says again.
        let is_passed = came == records;
        assert!(is_passed || came.len() == 7 && came[0] == 21 || came.is_empty(), "seed {seed}: {came:?}");
        passed += usize::from(is_passed);
    }
    assert!(passed > 10, "{passed}");
    running.settled().await;
}

#[tokio::test]
async fn a_first_message_that_takes_too_long_is_waited_for_no_more() {
    let running = start(Limits { handshake: SOON, ..Limits::default() });
    let at = pass_through(&running);
    let base = Scripted::new().await;
    running.proxy.apply(&table(1, [to(base.at, &json!({"ports": [at.port()]}))])).await.unwrap();
    let whole = hello("one.example");
    for length in [0, 1, 5, 60, whole.len() - 1] {
        let mut caller = Peer::connect(at).await;
        caller.send(&whole[..length]).await;
        caller.gone().await;
    }
    running.settled().await;
    assert!(base.is_left_alone().await);
}
