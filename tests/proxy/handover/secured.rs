//! Callers of TLS, and whoever reads metrics, while processes are renewed.

use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use proxy::control::form::{Status, Upgrading};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::client::TlsStream;

use super::{
    load::Counting,
    processes::{self, Held, kill, wait_until},
};
use crate::{
    http2_world::{call, over, request},
    tls::{Authority, client, dial, write},
    world::field,
};

/// A proxy that has an address for callers of TLS beside the other one.
struct Secured {
    held: Held,
    authority: Authority,
    at: SocketAddr,
}

impl Secured {
    async fn start() -> Self {
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("of the proxy"));
        write(folder.path(), &authority.sign("here.example"));
        let held = Held::start_in(folder).await;
        let status = held.status().await;
        assert_eq!((status.listen.len(), status.tls.len()), (2, 1), "{status:?}");
        Self { held, authority, at: status.tls[0].parse().unwrap() }
    }

    fn client(&self, protocols: &[&str]) -> ClientConfig {
        client(self.authority.roots(), protocols, None)
    }

    async fn shown(&self) -> Vec<u8> {
        let stream = dial(self.at, self.client(&[])).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }
}

/// Callers who make a handshake, and then calls for as long as they may.
struct Callers {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    tasks: JoinSet<u64>,
}

impl Callers {
    fn start(of: &Secured, count: usize) -> Self {
        let (is_over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
            let (at, config) = (of.at, of.client(&["http/1.1"]));
            tasks.spawn(async move {
                let mut lost = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut stream) = dial(at, config.clone()).await else {
                        lost += 1;
                        continue;
                    };
                    loop {
                        let Some(head) = answer(&mut stream).await else {
                            lost += 1;
                            break;
                        };
                        answered.fetch_add(1, Ordering::Relaxed);
                        if field(&head, "connection") == Some("close") || is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
                lost
            });
        }
        Self { is_over, answered, tasks }
    }

    async fn make(&self, calls: u64) {
        let until = self.answered.load(Ordering::Relaxed) + calls;
        wait_until(async || self.answered.load(Ordering::Relaxed) >= until).await;
    }

    /// Calls that were answered, and calls and handshakes that were lost.
    async fn end(self) -> (u64, u64) {
        self.is_over.store(true, Ordering::Relaxed);
        let lost = self.tasks.join_all().await.into_iter().sum();
        (self.answered.load(Ordering::Relaxed), lost)
    }
}

/// The head of the answer to a call; none where it doesn't come whole.
async fn answer(stream: &mut TlsStream<TcpStream>) -> Option<String> {
    stream.write_all(b"POST /a/x HTTP/1.1\r\nHost: here.example\r\nContent-Length: 0\r\n\r\n").await.ok()?;
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\ndone") {
        got.push(stream.read_u8().await.ok()?);
    }
    let text = String::from_utf8(got).ok()?;
    text.starts_with("HTTP/1.1 200 ").then_some(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_tls_lose_no_call_over_upgrades_and_their_socket_stays_one_of_tls() {
    let mut of = Secured::start().await;
    let version = Counting::start().await;
    of.held.put(1, version.at).await;
    let callers = Callers::start(&of, 4);
    let first = of.shown().await;
    for _ in 0..6 {
        callers.make(30).await;
        of.held.upgrade().await;
        let status = of.held.status().await;
        assert_eq!(status.tls, [of.at.to_string()]);
    }
    // A certificate that came meanwhile is shown by the next process from its first connection on.
    write(of.held.folder(), &of.authority.sign("here.example"));
    let before = of.held.status().await.pid;
    of.held.hang_up();
    wait_until(async || {
        of.held.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != before)
    })
    .await;
    assert_ne!(of.shown().await, first);
    callers.make(30).await;

    // What a socket is for is known to the process that serves: the next supervisor has it from there.
    of.held.kill_holder();
    wait_until(async || !of.held.status().await.held).await;
    let before = of.held.status().await.pid;
    of.held.start_holder_again().await;
    wait_until(async || of.held.status().await.pid != before).await;
    assert_eq!(of.held.status().await.tls, [of.at.to_string()]);
    callers.make(30).await;
    let (answered, lost) = callers.end().await;
    assert_eq!((version.answered(), lost), (answered, 0));
    of.held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_over_tls_works_before_and_after_an_upgrade() {
    let of = Secured::start().await;
    let version = Counting::start().await;
    of.held.put(1, version.at).await;
    let dialled = async || dial(of.at, of.client(&["h2", "http/1.1"])).await.unwrap();
    let stream = dialled().await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let before = over(stream).await;
    assert_eq!(call(&before, request("GET", "/a"), "").await.unwrap().text(), "done");
    of.held.upgrade().await;
    // Told that the connection ends, or refused before anything was done: never half carried out.
    let next = over(dialled().await).await;
    for _ in 0..5 {
        assert_eq!(call(&next, request("GET", "/a"), "").await.unwrap().text(), "done");
    }
    drop((before, next));
    of.held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_certificate_at_upgrade_keeps_old_process_and_is_reported() {
    let of = Secured::start().await;
    let version = Counting::start().await;
    of.held.put(1, version.at).await;
    let before = of.held.status().await.pid;
    for (name, content) in [("tls.crt", "damaged once"), ("tls.key", "damaged twice")] {
        fs::write(of.held.folder().join(name), content).unwrap();
        of.held.client.post::<Upgrading>("/upgrade").await.unwrap();
        wait_until(async || of.held.status().await.upgrade_failed.is_some()).await;
        let why = of.held.status().await.upgrade_failed.unwrap();
        assert!(why.starts_with("the new process can't serve: ") && why.contains(name), "{why}");
        assert!(!why.contains(content), "{why}");
        assert_eq!(of.held.status().await.pid, before);
        of.shown().await;
        write(of.held.folder(), &of.authority.sign("here.example"));
    }
    // Without files it would have to take calls without TLS where callers rely on it.
    fs::remove_file(of.held.folder().join("tls.crt")).unwrap();
    of.held.client.post::<Upgrading>("/upgrade").await.unwrap();
    wait_until(async || of.held.status().await.upgrade_failed.is_some()).await;
    let why = of.held.status().await.upgrade_failed.unwrap();
    assert!(why.contains("no certificate is named: set tls.certificate and tls.key"), "{why}");
    write(of.held.folder(), &of.authority.sign("here.example"));
    assert_ne!(of.held.upgrade().await, before);
    assert_eq!(of.held.status().await.upgrade_failed, None);
    of.held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_of_a_service_manager_is_for_tls_where_its_address_is() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("of the proxy"));
    write(folder.path(), &authority.sign("here.example"));
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let notify = folder.path().join("tls.notify");
    let _told = tokio::net::UnixDatagram::bind(&notify).unwrap();
    let held = Held::start_with(folder, processes::Given { socket, notify }).await;
    let of = Secured { held, authority, at };
    let version = Counting::start().await;
    of.held.put(1, version.at).await;
    for _ in 0..2 {
        assert_eq!(of.held.status().await.tls, [at.to_string()]);
        assert!(answer(&mut dial(at, of.client(&[])).await.unwrap()).await.is_some());
        of.held.upgrade().await;
    }
    of.held.stop().await;
}

pub async fn ask(at: &str, question: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(question.as_bytes()).await.unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).await.unwrap();
    got
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_read_over_tcp_from_whoever_serves_and_nothing_can_be_changed_there() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(7, version.at).await;
    let [at] = &held.status().await.metrics[..] else { panic!("there is one address") };
    for _ in 0..3 {
        let metrics = ask(at, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").await;
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
        assert!(metrics.contains("choirmaster_proxy_table_generation 7\n"), "{metrics}");
        assert!(ask(at, "GET /healthz HTTP/1.0\r\n\r\n").await.ends_with("\r\n\r\nok\n"));
        held.upgrade().await;
    }
    let pid = held.status().await.pid;
    kill(pid);
    // The connection waits for the next one.
    assert!(ask(at, "GET /healthz HTTP/1.0\r\n\r\n").await.ends_with("ok\n"));
    for (question, status) in [
        ("PUT /table HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "404"),
        ("POST /drain HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "404"),
        ("GET /table HTTP/1.1\r\nHost: h\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = ask(at, question).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{question}: {answer}");
    }
    let huge = format!("GET /metrics HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let mut stream = TcpStream::connect(at).await.unwrap();
    let _ = stream.write_all(huge.as_bytes()).await;
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got).await;
    assert!(!got.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&got));
    // Silent ones take up places, and give them back; calls don't wait for them.
    let silent: Vec<TcpStream> =
        futures_util::future::join_all((0..40).map(|_| async { TcpStream::connect(at).await.unwrap() }))
            .await;
    super::load::call(&mut TcpStream::connect(held.at).await.unwrap(), "GET").await.unwrap();
    drop(silent);
    assert!(ask(at, "GET /healthz HTTP/1.0\r\n\r\n").await.ends_with("ok\n"));
    held.stop().await;
}
