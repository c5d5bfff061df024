//! What isn't HTTP alone, behind the proxy of an own agent: connections of TCP, flows of UDP, and TLS, opened and not.

mod cycles;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ClientConfig, RootCertStore, ServerConfig, pki_types::PrivateKeyDer};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use super::{
    node::Node,
    routers::{all_to, strategy},
    site::Site,
    users,
};
use crate::ports::free_address;

const HOST: &str = "shop.example";

/// A manager, and a router whose proxy takes something else than HTTP.
struct World {
    // In this order: the agent ends before its folder does.
    node: Node,
    site: Site,
    at: SocketAddr,
}

impl World {
    /// `proxy`: its configuration, in which `AT` stands for the address at which services may be.
    async fn start(proxy: &str) -> Self {
        Self::prepared(proxy, |_| ()).await
    }

    /// `prepare` puts files into the folder that `FOLDER` stands for.
    async fn prepared(proxy: &str, prepare: impl FnOnce(&Path)) -> Self {
        Self::with(&[], proxy, prepare).await
    }

    /// `set`: of the agent, as `KEY=VALUE`.
    async fn with(set: &[&str], proxy: &str, prepare: impl FnOnce(&Path)) -> Self {
        let site = Site::start().await;
        let at = free_address();
        let folder = site.folder().join("router");
        let set = [&["agent.labels=env=prod"][..], set].concat();
        let mut node = Node::of(&folder, "router", &site.manager.url(), &set);
        let config = folder.join("config");
        fs::create_dir(&config).unwrap();
        prepare(&config);
        let proxy = proxy.replace("AT", &at.to_string()).replace("FOLDER", config.to_str().unwrap());
        fs::write(config.join("proxy.yml"), proxy).unwrap();
        node.come_back();
        node.until_it_answers().await;
        site.manager.knows(1).await;
        Self { node, site, at }
    }

    /// Registers the release `shop`, whose version 1 serves. `port`: what is said of its port; `more`: of its service, in whole lines.
    async fn registers(&self, port: &str, more: &str, versions: [SocketAddr; 2]) {
        let [one, two] = versions;
        let manifest = format!(
            "kind: Release\nmetadata: {{name: shop}}\nspec:\n  routers: {{env: prod}}\n  version: 1\n  versions:\n    - {{version: 1, \
             targets: {{checkout: [\"{one}\"]}}}}\n    - {{version: 2, targets: {{checkout: [\"{two}\"]}}}}\n  services:\n    - name: \
             checkout\n      ports: [{{port: {}, {port}}}]\n{more}",
            self.at.port()
        );
        self.site.manager.submit(&manifest).await;
    }

    /// A canary of its version 2 gets half. `transition`: empty, or what becomes of it.
    async fn canary(&self, transition: &str) {
        let manifest = format!(
            "kind: CanaryRelease\nmetadata: {{name: checkout-2}}\nspec:\n  release: shop\n  version: 2\n  services: [{{service: checkout, \
             ports: [{{port: {}, config: {{weight: 50}}}}]}}]\n  transition: {transition:?}\n",
            self.at.port()
        );
        self.site.manager.submit(&manifest).await;
    }

    /// How the canary has ended.
    async fn ended(&self) -> String {
        self.site.manager.ended("checkout-2").await["state"].as_str().unwrap().to_owned()
    }

    /// Waits until agent and proxy give the second variation so much, in units of 0.01 %.
    async fn gives(&self, second: u16) {
        self.node
            .until(&format!("it gives {second} to the second"), |status| {
                status.services.first().is_some_and(|service| service.variations[1].share == second)
            })
            .await;
        self.node
            .until_proxy(&format!("its table gives {second} to the second"), |status| {
                let [service] = &status.services[..] else { return false };
                service.variations.last().is_some_and(|last| last.share == second)
            })
            .await;
    }
}

/// A version that runs. It ends with the test.
struct Backend {
    at: SocketAddr,
    _serving: JoinSet<()>,
}

impl Backend {
    /// Carries out each connection so.
    async fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream));
            }
        });
        Self { at, _serving: serving }
    }

    /// Says its name, and the port of the caller by the header in front; then everything that it hears.
    async fn announced(name: &'static str) -> Self {
        Self::start(move |stream| async move {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            // Who only looks whether somebody is there says nothing.
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let caller = line.split(' ').nth(4).unwrap_or("nobody").to_owned();
            stream.write_all(format!("{name} {caller}\n").as_bytes()).await?;
            line.clear();
            while stream.read_line(&mut line).await? > 0 {
                stream.write_all(line.as_bytes()).await?;
                line.clear();
            }
            Ok(())
        })
        .await
    }

    /// Ends TLS itself, and says its name. With what callers know it by.
    async fn secured(name: &'static str, roots: &mut RootCertStore) -> Self {
        let acceptor = acceptor(roots);
        Self::start(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let mut stream = acceptor.accept(stream).await?;
                stream.write_all(name.as_bytes()).await?;
                stream.shutdown().await
            }
        })
        .await
    }

    /// Answers each datagram with what is in it, with its name, and with where that came from.
    async fn datagrams(name: &'static str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = socket.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut room = [0; 16];
            while let Ok((length, from)) = socket.recv_from(&mut room).await {
                let said = String::from_utf8_lossy(&room[..length]);
                let _ = socket.send_to(format!("{said} {name} {from}").as_bytes(), from).await;
            }
        });
        Self { at, _serving: serving }
    }
}

/// Ends TLS as [`HOST`], with a certificate of its own, which callers know it by from now on.
fn acceptor(roots: &mut RootCertStore) -> TlsAcceptor {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([HOST.to_owned()]).unwrap();
    roots.add(cert.der().clone()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A connection of TCP, and who has it. They know who calls.
async fn dial(at: SocketAddr) -> (String, BufReader<TcpStream>) {
    let stream = TcpStream::connect(at).await.unwrap();
    let own = stream.local_addr().unwrap().port().to_string();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let (name, caller) = line.trim_end().split_once(' ').unwrap();
    assert_eq!(caller, own);
    (name.to_owned(), stream)
}

/// What is heard on a connection after this was said.
async fn hears(stream: &mut BufReader<TcpStream>, text: &str) -> String {
    stream.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    line.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_tcp_stay_as_long_as_they_may_and_targets_know_who_calls() {
    let world = World::start("tcp:\n  listen: AT\n").await;
    let (a, b) = (Backend::announced("A").await, Backend::announced("B").await);
    let more = "      proxyProtocol: v1\n      drain: 1s\n";
    world.registers("protocol: TCP", more, [a.at, b.at]).await;
    world.canary("").await;
    world.gives(5_000).await;
    let mut kept = BTreeMap::new();
    while kept.len() < 2 {
        let (name, stream) = dial(world.at).await;
        kept.entry(name).or_insert(stream);
    }
    world.canary("Adopted").await;
    world.gives(10_000).await;
    // Who is with the version that was replaced is cut once its time is over; nothing is said on its connection before that.
    let mut replaced = kept.remove("A").unwrap();
    let mut said = Vec::new();
    let _ = replaced.read_to_end(&mut said).await;
    assert_eq!(said, b"");
    assert_eq!(world.ended().await, "Done");
    assert_eq!(hears(kept.get_mut("B").unwrap(), "and on").await, "and on");
    for _ in 0..20 {
        assert_eq!(dial(world.at).await.0, "B");
    }
}

/// What is answered to a datagram of a caller, however often one gets lost. Each question has a number, so that a late answer to one
/// before, which may be of another time, is not taken for that to this one.
async fn asked(caller: &UdpSocket) -> String {
    static QUESTIONS: AtomicU64 = AtomicU64::new(0);
    let mut room = [0; 64];
    loop {
        let number = QUESTIONS.fetch_add(1, Ordering::Relaxed).to_string();
        caller.send(number.as_bytes()).await.unwrap();
        let answer = async {
            loop {
                let Ok(length) = caller.recv(&mut room).await else { return None };
                let text = String::from_utf8(room[..length].to_vec()).unwrap();
                if let Some((of, answer)) = text.split_once(' ')
                    && of == number
                {
                    return Some(answer.to_owned());
                }
            }
        };
        if let Ok(Some(answer)) = timeout(Duration::from_secs(1), answer).await {
            return answer;
        }
    }
}

#[tokio::test]
async fn a_late_answer_to_a_question_before_is_passed_over() {
    let backend = Backend::datagrams("A").await;
    let caller = caller(backend.at).await;
    caller.send(b"before").await.unwrap();
    // It is there before anything is asked.
    caller.readable().await.unwrap();
    let own = caller.local_addr().unwrap();
    assert_eq!(asked(&caller).await, format!("A {own}"));
    assert_eq!(asked(&caller).await, format!("A {own}"));
}

async fn caller(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(at).await.unwrap();
    socket
}

/// Stages that last until they are skipped.
fn weights() -> String {
    let stage = |name: &str, of_b: u8, next: &str| {
        format!(
            "  - name: {name}\n    type: Traffic\n    shares: {{A: {}, B: {of_b}}}\n    end_conditions: [{{name: minDuration, threshold: \
             1h}}]\n    end_action: {{onSuccess: {next}, onFailure: rollback}}\n",
            100 - of_b
        )
    };
    let stages = [stage("little", 10, "half"), stage("half", 50, "all"), stage("all", 100, "rollout")];
    format!("stages:\n{}", stages.concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_of_udp_keeps_its_variation_over_three_weights() {
    let world = World::start("udp:\n  listen: AT\n  idle: 10m\n").await;
    let (a, b) = (Backend::datagrams("A").await, Backend::datagrams("B").await);
    let submit = async |id: &str, stages: &str| {
        let text = strategy(id, world.at.port(), [("A", a.at), ("B", b.at)], stages);
        let text = text.replace("    sticky: {header: X-User}\n", "");
        let port = format!("{{port: {}}}", world.at.port());
        let of_udp = port.replace('}', ", protocol: UDP}");
        world.site.manager.submit(&text.replace(&port, &of_udp)).await;
    };
    submit("checkout-0", &all_to("A")).await;
    world.site.manager.ended("checkout-0").await;
    let first = caller(world.at).await;
    let flow = asked(&first).await;
    assert!(flow.starts_with("A "), "{flow}");

    submit("checkout-1", &weights()).await;
    world.gives(1_000).await;
    // One that came with the first weight, and was given the new variation.
    let (second, new_flow) = loop {
        let caller = caller(world.at).await;
        let flow = asked(&caller).await;
        if flow.starts_with("B ") {
            break (caller, flow);
        }
    };
    for (stage, next) in [("little", 5_000), ("half", 10_000)] {
        assert_eq!((asked(&first).await, asked(&second).await), (flow.clone(), new_flow.clone()));
        let skip = format!("/api/v1/releases/checkout-1/stages/{stage}/skip");
        let (status, text) = world.site.manager.order(&skip, &json!({"by": "tester"})).await;
        assert!((200..300).contains(&status), "{status} {text}");
        world.gives(next).await;
    }
    assert_eq!((asked(&first).await, asked(&second).await), (flow, new_flow));
    for _ in 0..20 {
        let flow = asked(&caller(world.at).await).await;
        assert!(flow.starts_with("B "), "who comes now gets what the table says: {flow}");
    }
}

/// A connection of TLS whose caller names a host and knows these; an error where nobody speaks for it.
async fn names(
    host: &'static str,
    at: SocketAddr,
    roots: &RootCertStore,
) -> io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots.clone()).with_no_client_auth();
    let stream = TcpStream::connect(at).await?;
    TlsConnector::from(Arc::new(config)).connect(host.try_into().unwrap(), stream).await
}

/// What is said to a caller of TLS.
async fn secured(at: SocketAddr, roots: &RootCertStore) -> io::Result<String> {
    let mut stream = names(HOST, at, roots).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    Ok(said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_of_tls_that_passes_unopened_goes_as_it_came() {
    let world = World::start("tls:\n  pass_through: AT\n").await;
    let mut roots = RootCertStore::empty();
    let a = Backend::secured("A", &mut roots).await;
    let b = Backend::secured("B", &mut roots).await;
    world.registers(&format!("protocol: HTTPS, hosts: [{HOST}], tls: pass"), "", [a.at, b.at]).await;
    secured(world.at, &roots).await.expect_err("nobody speaks for the host yet");
    world.canary("").await;
    world.gives(5_000).await;
    let mut heard = BTreeSet::new();
    while heard.len() < 2 {
        heard.insert(secured(world.at, &roots).await.unwrap());
    }
    assert_eq!(heard.into_iter().collect::<Vec<_>>(), ["A", "B"]);
    world.canary("Deprecated").await;
    assert_eq!(world.ended().await, "Aborted");
    world.node.until_proxy("it leads nothing", |status| status.services.is_empty()).await;
    secured(world.at, &roots).await.expect_err("nobody speaks for the host any more");
}

/// Who answers a call over TLS: the last letter of the answer.
async fn answers(host: &'static str, at: SocketAddr, roots: &RootCertStore) -> io::Result<char> {
    let mut stream = names(host, at, roots).await?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    let mut came = Vec::new();
    while !came.windows(4).rev().skip(1).any(|end| end == b"\r\n\r\n") {
        assert!(stream.read_buf(&mut came).await? > 0, "{}", String::from_utf8_lossy(&came));
    }
    assert!(came.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&came));
    Ok(char::from(came[came.len() - 1]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_of_https_has_the_certificate_of_each_host() {
    const OTHER: &str = "www.shop.example";
    let mut roots = RootCertStore::empty();
    let proxy = "tls:\n  listen: AT\n  certificate: \"FOLDER/{host}.crt\"\n  key: \"FOLDER/{host}.key\"\n";
    let world = World::prepared(proxy, |folder| {
        for host in [HOST, OTHER] {
            let CertifiedKey { cert, signing_key } = generate_simple_self_signed([host.to_owned()]).unwrap();
            roots.add(cert.der().clone()).unwrap();
            fs::write(folder.join(format!("{host}.crt")), cert.pem()).unwrap();
            fs::write(folder.join(format!("{host}.key")), signing_key.serialize_pem()).unwrap();
        }
    })
    .await;
    let (a, b) = (users::Backend::start('A'), users::Backend::start('B'));
    world.registers("protocol: HTTPS", "", [a.at, b.at]).await;
    world.canary("").await;
    world.gives(5_000).await;
    for host in [HOST, OTHER] {
        let mut heard = BTreeSet::new();
        while heard.len() < 2 {
            heard.insert(answers(host, world.at, &roots).await.unwrap());
        }
        assert_eq!(heard.into_iter().collect::<Vec<_>>(), ['A', 'B']);
    }
    answers("another.example", world.at, &roots).await.expect_err("there is no certificate of it");
    world.canary("Adopted").await;
    assert_eq!(world.ended().await, "Done");
    world.gives(10_000).await;
    for host in [HOST, OTHER] {
        assert_eq!(answers(host, world.at, &roots).await.unwrap(), 'B');
    }
}
