//! The data plane: takes calls, gives each to a version by the table in force, repeats on the stable version what a new one
//! failed, and counts.
//!
//! One thread a core, each with a runtime, connections, pools and counters of its own. They share the listening sockets and the
//! checked table, and nothing else that is written while calls are served, but for the calls in flight of each version.
//!
//! Invariants, which `tests/proxy/` asserts:
//!
//! 1. A call is answered by a version that had a share in the table in force when its head was read, or by the stable one.
//! 2. A version that no table names any more is drained once the last call that holds it has ended; until then it is said to be
//!    in use.
//! 3. No connection of a caller is closed while it is idle, but for the limit on idleness: one that has to end is told so
//!    in an answer.
//! 4. What may have been carried out is sent again only where that is declared or harmless, and each time is counted.
//! 5. What passes has one meaning (`head`).

mod answer;
mod body;
mod connection;
mod count;
mod decide;
mod drive;
mod exchange;
pub mod form;
mod head;
mod http2;
mod limits;
pub mod live;
mod patience;
mod pool;
mod stream;
mod tls;
mod tunnel;
mod worker;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError, Weak, atomic::AtomicUsize},
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

pub use self::{
    count::Tally,
    limits::Limits,
    tls::{Tls, TlsFault, TlsFiles},
    worker::Gathered,
};
use self::{
    form::TableForm,
    live::{LiveTable, TableFault, Version},
    worker::{Crew, Order, Worker},
};

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
    in_force: Mutex<Arc<LiveTable>>,
    /// Versions that were named by a table and are not any more, while somebody holds them.
    leaving: Mutex<Vec<Weak<Version>>>,
}

impl Proxy {
    /// Starts so many threads, which serve nothing yet.
    pub fn start(threads: usize, limits: Limits) -> io::Result<Self> {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..threads.max(1)).map(|_| mpsc::unbounded_channel()).unzip();
        let connections = senders.iter().map(|_| AtomicUsize::default()).collect();
        let crew = Arc::new(Crew { limits, connections, orders: senders.into() });
        let mut running = Vec::new();
        for (index, orders) in receivers.into_iter().enumerate() {
            let crew = Arc::clone(&crew);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let thread = std::thread::Builder::new().name(format!("proxy-{index}"));
            running.push(thread.spawn(move || runtime.block_on(Worker::run(crew, index, orders)))?);
        }
        let in_force = Mutex::new(Arc::new(LiveTable::empty()));
        Ok(Self { crew, threads: running, in_force, leaving: Mutex::default() })
    }

    /// Takes calls from a socket that listens already.
    pub fn listen(&self, socket: &TcpListener) -> io::Result<SocketAddr> {
        self.take_calls(socket, None)
    }

    /// The same, for callers who speak TLS.
    pub fn listen_tls(&self, socket: &TcpListener, tls: &Arc<Tls>) -> io::Result<SocketAddr> {
        self.take_calls(socket, Some(tls))
    }

    fn take_calls(&self, socket: &TcpListener, tls: Option<&Arc<Tls>>) -> io::Result<SocketAddr> {
        socket.set_nonblocking(true)?;
        for orders in &self.crew.orders {
            let _ = orders.send(Order::Listen(socket.try_clone()?, tls.cloned()));
        }
        socket.local_addr()
    }

    /// Puts a table in force. Once this returns, no further call is given to a version by the old one.
    pub async fn apply(&self, form: &TableForm) -> Result<Arc<LiveTable>, TableFault> {
        let (next, acknowledged) = {
            let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
            let next = Arc::new(in_force.next(form)?);
            let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
            leaving.retain(|version| version.strong_count() > 0);
            let versions = in_force.services().iter().flat_map(|service| service.versions());
            leaving.extend(versions.map(Arc::downgrade));
            *in_force = Arc::clone(&next);
            let tell = |orders: &mpsc::UnboundedSender<Order>| {
                let (done, acknowledged) = oneshot::channel();
                let _ = orders.send(Order::Table(Arc::clone(&next), done));
                acknowledged
            };
            (Arc::clone(&next), self.crew.orders.iter().map(tell).collect::<Vec<_>>())
        };
        for acknowledged in acknowledged {
            let _ = acknowledged.await;
        }
        Ok(next)
    }

    /// The table in force.
    #[must_use]
    pub fn table(&self) -> Arc<LiveTable> {
        Arc::clone(&self.in_force.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Versions that the table in force doesn't name and that still answer calls.
    #[must_use]
    pub fn leaving(&self) -> Vec<Arc<Version>> {
        let table = self.table();
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut versions: Vec<Arc<Version>> = leaving.iter().filter_map(Weak::upgrade).collect();
        let is_named = |version: &Arc<Version>| {
            table
                .services()
                .iter()
                .any(|service| service.versions().iter().any(|named| Arc::ptr_eq(named, version)))
        };
        versions.retain(|version| !is_named(version));
        versions.sort_by_key(Arc::as_ptr);
        versions.dedup_by_key(|version| Arc::as_ptr(version));
        leaving.clear();
        leaving.extend(versions.iter().map(Arc::downgrade));
        versions
    }

    /// What was counted since this was asked last, a thread, version and split at a time.
    pub async fn gather(&self) -> Vec<Gathered> {
        let ask = |orders: &mpsc::UnboundedSender<Order>| {
            let (to, gathered) = oneshot::channel();
            let _ = orders.send(Order::Gather(to));
            gathered
        };
        let asked: Vec<_> = self.crew.orders.iter().map(ask).collect();
        let mut all = Vec::new();
        for gathered in asked {
            all.extend(gathered.await.unwrap_or_default());
        }
        all
    }

    /// Connections of callers.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.crew.connections()
    }

    /// Accepts nothing more and ends each connection with its next answer, until none is left or the time is over. Gives how many
    /// connections are left.
    pub async fn drain(&self, at_most: Duration) -> usize {
        for orders in &self.crew.orders {
            let _ = orders.send(Order::Drain);
        }
        let until = tokio::time::Instant::now() + at_most;
        while self.connections() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.connections()
    }

    /// How many threads serve.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }
}
