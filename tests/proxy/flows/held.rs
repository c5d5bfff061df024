//! Connections and flows over upgrades: the processes are real ones.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use proxy::control::form::{Applied, Status};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use super::{echo, table, udp::End};
use crate::handover::processes::{Held, terminate, wait_until};

const UPGRADES: u64 = 20;

/// A proxy that has an address each for TCP, for TLS that passes, and for UDP.
struct Flowing {
    held: Held,
    tcp: SocketAddr,
    udp: SocketAddr,
}

impl Flowing {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tls.flows"), "").unwrap();
        let held = Held::start_in(folder).await;
        let status = held.status().await;
        assert_eq!((status.listen.len(), status.pass_through.len()), (1, 1), "{status:?}");
        let (tcp, udp) = (status.tcp[0].parse().unwrap(), status.udp[0].parse().unwrap());
        Self { held, tcp, udp }
    }

    /// All connections go to this one, and flows to that one.
    async fn put(&self, generation: u64, connections: SocketAddr, flows: SocketAddr) {
        let service = |protocol: &str, port: u16, at: SocketAddr| json!({"protocol": protocol, "ports": [port], "variations": [{"name": "base", "targets": [at.to_string()]}]});
        let services = [service("tcp", self.tcp.port(), connections), service("udp", self.udp.port(), flows)];
        let form = serde_json::to_vec(&table(generation, services)).unwrap();
        let _: Applied = self.held.client.put("/table", form.into()).await.unwrap();
    }
}

/// A target that says to whoever sends something how much that one has sent, which shows who is taken for somebody else.
async fn counting() -> SocketAddr {
    let end = End::new().await;
    let at = end.at();
    tokio::spawn(async move {
        let mut heard = HashMap::<SocketAddr, u64>::new();
        loop {
            let mut room = [0; 100];
            let (length, from) = end.socket.recv_from(&mut room).await.unwrap();
            let count = heard.entry(from).or_default();
            *count += 1;
            let text = format!("{count} {}", String::from_utf8_lossy(&room[..length]));
            end.send(from, &text).await;
        }
    });
    at
}

/// Callers of both kinds, for as long as they may.
struct Callers {
    is_over: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Callers {
    fn start(of: &Flowing) -> Self {
        let (is_over, made) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        let (tcp, udp) = (of.tcp, of.udp);
        for long in [false, false, false, true, true] {
            let (is_over, made) = (Arc::clone(&is_over), Arc::clone(&made));
            tasks.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    talk(tcp, long.then_some(&*is_over)).await;
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..3 {
            let (is_over, made) = (Arc::clone(&is_over), Arc::clone(&made));
            tasks.spawn(async move {
                let end = End::new().await;
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    count += 1;
                    end.send(udp, "x").await;
                    // Each is answered, and taken for the same caller's as the one before.
                    assert_eq!(end.next().await, (format!("{count} x"), udp));
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { is_over, made, tasks }
    }

    async fn make(&self, more: u64) {
        let until = self.made.load(Ordering::Relaxed) + more;
        wait_until(async || self.made.load(Ordering::Relaxed) >= until).await;
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

/// A connection over which everything comes back that was sent; a long one until it is over.
async fn talk(at: SocketAddr, long: Option<&AtomicBool>) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let mut came = [0; 9];
    for turn in 0_u64.. {
        let is_last = long.map_or(turn == 3, |is_over| is_over.load(Ordering::Relaxed));
        if is_last {
            break;
        }
        stream.write_all(b"sent away").await.unwrap();
        stream.read_exact(&mut came).await.unwrap();
        assert_eq!(&came, b"sent away");
    }
    stream.shutdown().await.unwrap();
    let rest = timeout(Duration::from_secs(20), stream.read(&mut came)).await;
    assert_eq!(rest.expect("it was left open").unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_is_cut_and_no_datagram_lost_or_taken_for_anothers_over_twenty_upgrades() {
    let of = Flowing::start().await;
    let (connections, flows) = (echo("").await, counting().await);
    of.put(1, connections, flows).await;
    let callers = Callers::start(&of);
    for upgrade in 0..UPGRADES {
        callers.make(60).await;
        let before = of.held.upgrade().await;
        of.put(upgrade + 2, connections, flows).await;
        let status = of.held.status().await;
        assert_eq!((status.tcp, status.udp), (vec![of.tcp.to_string()], vec![of.udp.to_string()]));
        assert_eq!((status.flows, before), (3, status.pid));
    }
    // A signal to the one that serves is no other than that.
    let pid = of.held.status().await.pid;
    terminate(pid);
    wait_until(async || of.held.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != pid))
        .await;
    callers.make(60).await;
    callers.end().await;
    // Processes that handed over have nothing left, once their connections have ended.
    wait_until(async || of.held.status().await.finishing.is_empty()).await;
    of.held.client.get::<Status>("/status").await.unwrap();
    of.held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_of_removed_version_survives_upgrade_and_is_reported_leaving() {
    let of = Flowing::start().await;
    let (first, second) = (End::new().await, End::new().await);
    let connections = echo("").await;
    of.put(1, connections, first.at()).await;
    let caller = End::new().await;
    caller.send(of.udp, "one").await;
    let (_, flow) = first.next().await;
    of.put(2, connections, second.at()).await;
    for _ in 0..2 {
        // An answer that comes while nobody reads is waited for by the next one.
        first.send(flow, "answer").await;
        of.held.upgrade().await;
        assert_eq!(caller.next().await, ("answer".to_owned(), of.udp));
        let status = of.held.status().await;
        assert_eq!(status.leaving.iter().map(|left| left.in_flight).collect::<Vec<_>>(), [1], "{status:?}");
        caller.send(of.udp, "more").await;
        assert_eq!(first.next().await, ("more".to_owned(), flow));
    }
    let other = End::new().await;
    other.send(of.udp, "another").await;
    assert_eq!(second.next().await.0, "another");
    of.held.stop().await;
}
