//! Connections of TCP and flows of UDP while shares change and new versions are killed.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use proxy::Limits;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    task::{JoinHandle, JoinSet},
};

use super::{scale::Scale, wait::wait_until};
use crate::{
    flows,
    world::{Running, start},
};

/// Of the whole test.
const CONNECTIONS: u64 = 60_000;
const DATAGRAMS: u64 = 60_000;
const CHANGES: u64 = 10_000;
/// A new version lives for so many changes.
const LIFE: u64 = 25;
const CALLERS: u64 = 8;

/// Connections at a version: those that are open, and those that ended in the middle.
#[derive(Clone, Default)]
struct AtVersion {
    open: Arc<AtomicU64>,
    broken: Arc<AtomicU64>,
}

struct Guard {
    of: AtVersion,
    is_whole: bool,
}

impl AtVersion {
    fn enter(&self) -> Guard {
        self.open.fetch_add(1, SeqCst);
        Guard { of: self.clone(), is_whole: false }
    }
}

impl Guard {
    fn is_whole(&mut self) {
        self.is_whole = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.of.broken.fetch_add(u64::from(!self.is_whole), SeqCst);
        self.of.open.fetch_sub(1, SeqCst);
    }
}

/// A version that says its name to whoever connects, and then everything that it hears.
struct Version {
    at: SocketAddr,
    connections: AtVersion,
    serving: JoinHandle<()>,
}

impl Version {
    async fn start(name: [u8; 4]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let connections = AtVersion::default();
        let of_task = connections.clone();
        let serving = tokio::spawn(async move {
            let mut tasks = JoinSet::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut guard = of_task.enter();
                // Whoever is killed says no goodbye.
                stream.set_zero_linger().unwrap();
                tasks.spawn(async move {
                    stream.write_all(&name).await?;
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await?;
                    // Whoever ends in order does.
                    rustix::net::sockopt::set_socket_linger(&stream, None)?;
                    stream.shutdown().await?;
                    guard.is_whole();
                    std::io::Result::Ok(())
                });
                while tasks.try_join_next().is_some() {}
            }
        });
        Self { at, connections, serving }
    }

    /// Ends it as SIGKILL does, and gives how many connections that broke.
    async fn kill(self) -> u64 {
        self.serving.abort();
        let _ = self.serving.await;
        wait_until("all are gone", async || self.connections.open.load(SeqCst) == 0).await;
        self.connections.broken.load(SeqCst)
    }
}

/// What callers saw of their connections.
#[derive(Debug, Default)]
struct Saw {
    whole: AtomicU64,
    /// Cut while the new version had them; while the base had them.
    cut_at_new: AtomicU64,
    cut_at_base: AtomicU64,
    /// Cut before anybody said its name: a version may be killed in between.
    nameless: AtomicU64,
    is_over: AtomicBool,
}

/// A connection with some turns; whose it was, as far as that was said, if it wasn't whole.
async fn talk(at: SocketAddr, random: &mut fastrand::Rng) -> Result<(), Option<[u8; 4]>> {
    let mut name = [0; 4];
    let mut stream = TcpStream::connect(at).await.map_err(|_| None)?;
    stream.read_exact(&mut name).await.map_err(|_| None)?;
    let mut turns = async || -> std::io::Result<()> {
        for _ in 0..random.u32(0..4) {
            let size = random.usize(1..20_000);
            let sent: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(size).collect();
            let (mut from, mut to) = stream.split();
            let mut came = vec![0; sent.len()];
            let (written, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut came));
            written?;
            read?;
            assert!(came == sent, "what came back is something else");
            if random.bool() {
                tokio::time::sleep(Duration::from_millis(random.u64(..3))).await;
            }
        }
        stream.shutdown().await?;
        match stream.read(&mut [0]).await? {
            0 => Ok(()),
            _ => panic!("more came back than was sent"),
        }
    };
    turns().await.map_err(|_| Some(name))
}

async fn call(at: SocketAddr, seed: u64, saw: Arc<Saw>) {
    let mut random = fastrand::Rng::with_seed(seed);
    while !saw.is_over.load(SeqCst) {
        match talk(at, &mut random).await {
            Ok(()) => saw.whole.fetch_add(1, SeqCst),
            Err(Some(name)) if &name == b"new." => saw.cut_at_new.fetch_add(1, SeqCst),
            Err(Some(_)) => saw.cut_at_base.fetch_add(1, SeqCst),
            Err(None) => saw.nameless.fetch_add(1, SeqCst),
        };
    }
}

async fn put(
    running: &Running,
    generation: u64,
    protocol: &str,
    port: SocketAddr,
    at: [SocketAddr; 2],
    share: u16,
) {
    let mut service = flows::service(protocol, port, &at[0].to_string(), &at[1].to_string(), share);
    service["variations"][1]["version"] = json!(at[1].to_string());
    running.share(generation, service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_of_tcp_is_cut_but_those_that_a_killed_version_had() {
    let scale = Scale::find();
    let running = start(Limits::default());
    let at = flows::tcp(&running);
    let base = Version::start(*b"base").await;
    let mut new = Version::start(*b"new.").await;
    put(&running, 1, "tcp", at, [base.at, new.at], 5_000).await;
    let saw = Arc::new(Saw::default());
    let callers: JoinSet<()> =
        (0..CALLERS).map(|caller| call(at, scale.part * 1_000 + caller, Arc::clone(&saw))).collect();
    let mut random = fastrand::Rng::with_seed(scale.part);
    let (connections, changes) = (Scale::part_of(CONNECTIONS), Scale::part_of(CHANGES));
    let (mut had, mut kills) = (0, 0);
    for change in 0..changes {
        let share = [0, 1, 500, 5_000, 9_999, 10_000][random.usize(..6)];
        put(&running, change + 2, "tcp", at, [base.at, new.at], share).await;
        let until = connections * (change + 1) / changes;
        wait_until("connections were made", async || saw.whole.load(SeqCst) >= until).await;
        if change % LIFE == LIFE - 1 {
            // With whatever share it has, and for a while nobody notices.
            had += new.kill().await;
            kills += 1;
            let soon = saw.whole.load(SeqCst) + CALLERS;
            wait_until("connections go on", async || saw.whole.load(SeqCst) >= soon).await;
            new = Version::start(*b"new.").await;
        }
    }
    saw.is_over.store(true, SeqCst);
    callers.join_all().await;
    running.settled().await;
    assert!(saw.whole.load(SeqCst) >= connections && kills > 0, "{saw:?}");
    assert_eq!(saw.cut_at_base.load(SeqCst), 0, "{saw:?}");
    assert!(saw.cut_at_new.load(SeqCst) <= had, "{saw:?}, {had} were open");
    let (of_base, of_new) = (running.counted("base").await, running.counted("new").await);
    assert_eq!((of_base.failures(), of_base.cut, of_base.succeeded), (0, 0, of_base.calls));
    assert_eq!((of_new.repeats_failed, of_new.cut), (0, 0));
    // Each is counted once, and none was cut but at versions that were killed.
    let cut = saw.cut_at_new.load(SeqCst) + saw.nameless.load(SeqCst);
    assert_eq!(of_base.calls + of_new.calls, saw.whole.load(SeqCst) + cut, "{saw:?}");
    assert!(cut <= of_new.failures(), "{saw:?}: {of_new:?}");
}

/// A target of UDP that says everything that it hears.
async fn echo() -> (SocketAddr, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut room = [0; 2_048];
        loop {
            // Whoever was answered may be gone, which is said here.
            if let Ok((length, from)) = socket.recv_from(&mut room).await {
                let _ = socket.send_to(&room[..length], from).await;
            }
        }
    });
    (at, serving)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_datagram_is_lost_over_changes_of_shares() {
    let scale = Scale::find();
    let running = start(Limits::default());
    let port = running.proxy.listen_udp(&std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    let ((base, _base), (new, _new)) = (echo().await, echo().await);
    put(&running, 1, "udp", port, [base, new], 5_000).await;
    let saw = Arc::new(Saw::default());
    let callers: JoinSet<()> = (0..CALLERS)
        .map(|_| {
            let saw = Arc::clone(&saw);
            async move {
                while !saw.is_over.load(SeqCst) {
                    // Short flows and long ones.
                    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                    for turn in 0..20_u64 {
                        socket.send_to(&turn.to_be_bytes(), port).await.unwrap();
                        let mut room = [0; 100];
                        let came =
                            tokio::time::timeout(Duration::from_secs(20), socket.recv(&mut room)).await;
                        assert_eq!(&room[..came.expect("it was lost").unwrap()], turn.to_be_bytes());
                        saw.whole.fetch_add(1, SeqCst);
                    }
                }
            }
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(scale.part);
    let changes = Scale::part_of(CHANGES);
    for change in 0..changes {
        put(&running, change + 2, "udp", port, [base, new], random.u16(..=10_000)).await;
        let until = Scale::part_of(DATAGRAMS) * (change + 1) / changes;
        wait_until("datagrams pass", async || saw.whole.load(SeqCst) >= until).await;
    }
    saw.is_over.store(true, SeqCst);
    callers.join_all().await;
    assert!(running.proxy.metrics().await.contains("choirmaster_proxy_datagrams_dropped_total 0\n"));
}
