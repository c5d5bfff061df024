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
//!    in an answer. That is so over upgrades and where an address is closed, too; no connection that was accepted is lost by either.
//! 4. What may have been carried out is sent again only where that is declared or harmless, and each time is counted.
//! 5. What passes has one meaning (`head`).

pub mod access_log;
mod answer;
mod body;
mod buffers;
mod call;
mod caller;
mod collect;
mod connection;
mod connection_timeout;
pub mod control;
mod count;
mod decide;
mod drive;
mod exchange;
mod flow;
pub mod form;
mod handover;
mod handover_socket;
mod head;
mod http2;
mod limits;
mod listed;
mod listen_address;
pub mod listens;
pub mod live;
pub mod local_http;
mod mark;
mod metrics;
pub mod nftables;
mod pool;
pub mod processes;
pub mod prometheus;
pub mod proxy_protocol;
mod relay;
pub mod run;
mod secured;
mod shadow;
pub mod shared;
mod sockets;
mod stream;
pub mod supervisor;
pub mod table_file;
mod thread;
mod tls;
mod tunnel;
pub mod whole_file;
mod worker;

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use call_metrics::{CallMetrics, Cursor, InFlight, Reading, Retention, Row, Timeline};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};

use self::{
    access_log::{AccessLog, Log},
    collect::Collector,
    count::ThreadShard,
    flow::{AdoptedFlow, FlowForm},
    form::{AddressForm, AddressKind, TableForm},
    listen_address::ListenAddress,
    live::{LiveTable, TableFault, Version},
    proxy_protocol::Network,
    shared::Sharing,
    worker::{Crew, Incoming, Order},
};
pub use self::{
    limits::Limits,
    sockets::{Kind, Listen, Socket},
    tls::{Tls, TlsFault, TlsFiles},
};

/// What is measured, and what is written about calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measuring {
    /// How many seconds an interval of the counts has.
    pub interval_seconds: u32,
    pub room: Retention,
    pub access_log: AccessLog,
}

impl Default for Measuring {
    fn default() -> Self {
        Self { interval_seconds: 10, room: Retention::default(), access_log: AccessLog::default() }
    }
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    crew: Arc<Crew>,
    collector: Arc<Collector>,
    /// Dropped with the proxy, which ends collecting.
    _collecting: oneshot::Sender<()>,
    threads: Vec<JoinHandle<()>>,
    /// How many sockets for datagrams there have been.
    udp_sockets: AtomicUsize,
    /// Where it is listened, and addresses that were closed while something is left of what came in there.
    addresses: Mutex<Vec<Arc<ListenAddress>>>,
    in_force: Mutex<Arc<LiveTable>>,
    /// Versions that were named by a table and are not any more, while somebody holds them.
    leaving: Mutex<Vec<(Box<str>, Weak<Version>)>>,
}

/// A version that the table in force doesn't name and that somebody still holds.
#[derive(Debug)]
pub struct Leaving {
    pub service: Box<str>,
    pub version: Arc<Version>,
}

impl Proxy {
    /// Starts so many threads, which serve nothing yet.
    pub fn start(threads: usize, limits: Limits) -> io::Result<Self> {
        Self::start_measuring(threads, limits, &Measuring::default())
    }

    /// Starts so many threads, which serve nothing yet, and measures in this way. Refused if the access log can't be written.
    pub fn start_measuring(threads: usize, limits: Limits, measuring: &Measuring) -> io::Result<Self> {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..threads.max(1)).map(|_| mpsc::unbounded_channel()).unzip();
        let connections = senders.iter().map(|_| AtomicUsize::default()).collect();
        let timeline = Arc::new(Timeline::new(Instant::now(), measuring.interval_seconds));
        let log = Log::start(&measuring.access_log)?;
        let (orders, shard) = (senders.into(), ThreadShard::default());
        let crew = Arc::new(Crew {
            limits,
            connections,
            orders,
            timeline: Arc::clone(&timeline),
            shard,
            log,
            announcers: OnceLock::new(),
            flows: AtomicUsize::default(),
            datagrams_dropped: AtomicU64::default(),
            unreachable: Notify::new(),
        });
        let mut running = Vec::new();
        let (started, starts) = std::sync::mpsc::channel();
        for (index, orders) in receivers.into_iter().enumerate() {
            let (crew, started) = (Arc::clone(&crew), started.clone());
            let thread = std::thread::Builder::new().name(format!("proxy-{index}"));
            running.push(thread.spawn(move || thread::run(crew, index, orders, started))?);
        }
        drop(started);
        starts.into_iter().collect::<io::Result<()>>().inspect_err(|_| crew.stop())?;
        let call_metrics = CallMetrics::new(*timeline, measuring.room, fastrand::u64(1..1 << 53));
        let collector = Collector::new(Arc::clone(&crew), timeline, call_metrics);
        let (collecting, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (weak, thread) = (Arc::downgrade(&collector), std::thread::Builder::new());
        thread
            .name("proxy-counts".to_owned())
            .spawn(move || runtime.block_on(Collector::run(weak, stopped)))?;
        let in_force = Mutex::new(Arc::new(LiveTable::empty()));
        Ok(Self {
            crew,
            collector,
            _collecting: collecting,
            threads: running,
            udp_sockets: AtomicUsize::default(),
            addresses: Mutex::default(),
            in_force,
            leaving: Mutex::default(),
        })
    }

    /// Takes calls from a socket that listens already.
    pub fn listen(&self, socket: &TcpListener) -> io::Result<SocketAddr> {
        self.take(socket, &Incoming::Calls, Sharing::Alone)
    }

    /// The same, for callers who speak TLS.
    pub fn listen_tls(&self, socket: &TcpListener, tls: &Arc<Tls>) -> io::Result<SocketAddr> {
        self.take(socket, &Incoming::Secured(Arc::clone(tls)), Sharing::Alone)
    }

    /// Takes connections, all of which go to the service of TCP that has the socket's port.
    pub fn listen_tcp(&self, socket: &TcpListener) -> io::Result<SocketAddr> {
        self.take(socket, &Incoming::Tcp, Sharing::Alone)
    }

    /// Takes connections of TLS, which pass unopened to the service that their callers name.
    pub fn listen_pass_through(&self, socket: &TcpListener) -> io::Result<SocketAddr> {
        self.take(socket, &Incoming::Named, Sharing::Alone)
    }

    /// Takes datagrams: flows of the service of UDP that has the socket's port.
    pub fn listen_udp(&self, socket: &UdpSocket) -> io::Result<SocketAddr> {
        self.listen_udp_with(socket, Vec::new())
    }

    /// The same, after the flows that a process had which handed over.
    pub(crate) fn listen_udp_with(
        &self,
        socket: &UdpSocket,
        flows: Vec<(FlowForm, OwnedFd)>,
    ) -> io::Result<SocketAddr> {
        let at = socket.local_addr()?;
        let mut alone = Vec::new();
        let taken = flows.into_iter().filter_map(|(form, socket)| {
            let version = self.version_of(&form, &mut alone)?;
            Some(AdoptedFlow { form, socket, version })
        });
        let taken = taken.collect();
        let socket = socket.try_clone()?;
        // One thread has all flows of a socket; another one those of the next.
        let turn = self.udp_sockets.fetch_add(1, Ordering::Relaxed);
        let orders = &self.crew.orders[turn % self.crew.orders.len()];
        let form = AddressForm { kind: AddressKind::Udp, address: at };
        let address = self.address(ListenAddress::new(form, Sharing::Alone, 0));
        let _ = orders.send(Order::Datagrams(socket, taken, address));
        Ok(at)
    }

    /// Keeps in mind that it is listened there.
    fn address(&self, address: Arc<ListenAddress>) -> Arc<ListenAddress> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.retain(|known| !known.is_closed() || known.left() > 0);
        addresses.push(Arc::clone(&address));
        address
    }

    /// Takes nothing more from sockets that listen on these addresses, but for what waits in their queues. Once this returns, they are
    /// closed here, but for those for datagrams, which are closed with the last flow that is there; no further one begins. What came in
    /// ends as when the proxy drains, and is cut after [`Limits::flow_drain`].
    pub(crate) async fn close(&self, closed: &[AddressForm]) {
        let until = Instant::now() + self.crew.limits.flow_drain;
        let mut all = Vec::new();
        for address in self.addresses.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if address.is_closed() || !closed.contains(&address.form) {
                continue;
            }
            address.close(until);
            // Until each thread has its own, lest the first one finds nothing left while others accept.
            let for_all = address.accept();
            for orders in &self.crew.orders {
                let (done, closing) = oneshot::channel();
                let _ = orders.send(Order::Close(address.accept(), done));
                all.push(closing);
            }
            drop(for_all);
        }
        for closing in all {
            let _ = closing.await;
        }
    }

    /// How many connections, or flows, are left of those that came in at an address before it was closed.
    pub(crate) fn left_at(&self, form: AddressForm) -> usize {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = addresses.iter().filter(|known| known.is_closed() && known.form == form);
        closed.map(|known| known.left()).sum()
    }

    /// How many connections, or flows, there are of those that came in at each address.
    pub(crate) fn accepted(&self) -> Vec<(AddressForm, usize)> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let accepted = addresses.iter().map(|known| (known.form, known.left()));
        accepted.filter(|(_, left)| *left > 0).collect()
    }

    /// Addresses at which it can't be listened any more, since another program has ended that.
    pub(crate) fn deaf(&self) -> Vec<AddressForm> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let deaf = addresses.iter().filter(|known| !known.is_closed() && known.is_deaf());
        deaf.map(|known| known.form).collect()
    }

    /// Addresses of a port that other programs have as well, and at which it is listened.
    pub(crate) fn shared_at(&self, port: u16) -> Vec<Arc<ListenAddress>> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &&Arc<ListenAddress>| {
            known.sharing != Sharing::Alone && known.form.address.port() == port && !known.is_closed()
        };
        addresses.iter().filter(is_it).cloned().collect()
    }

    /// Whether the table in force has a service for all that comes in at an address.
    pub(crate) fn is_wanted(&self, address: &ListenAddress) -> bool {
        self.table().has_port(address.transport(), address.form.address.port())
    }

    /// Once this returns, what was so before holds on all threads.
    pub(crate) async fn acknowledged(&self) {
        for orders in &self.crew.orders {
            let (done, acknowledged) = oneshot::channel();
            let _ = orders.send(Order::Acknowledge(done));
            let _ = acknowledged.await;
        }
    }

    /// Takes what waits at a shared address, up to the connection that was made from there. Whether that was still among it; none: it can't
    /// be told.
    pub(crate) async fn take_waiting(&self, address: Arc<ListenAddress>, from: SocketAddr) -> Option<bool> {
        let (found, answer) = oneshot::channel();
        let _ = self.crew.orders.first()?.send(Order::TakeWaiting(address, from, found));
        answer.await.ok()?
    }

    /// The version that has a flow: where no table names it, it leaves.
    fn version_of(&self, form: &FlowForm, alone: &mut Vec<Arc<Version>>) -> Option<Arc<Version>> {
        let (service, _) = form.names();
        let table = self.table();
        let mut versions =
            table.services().iter().filter(|named| named.name() == service).flat_map(|of| of.versions());
        let known = versions.find(|version| form.is_at(version));
        if let Some(known) = known.or_else(|| alone.iter().find(|version| form.is_at(version))) {
            return Some(Arc::clone(known));
        }
        let version = Arc::new(form.version_alone()?);
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.push((service.into(), Arc::downgrade(&version)));
        alone.push(Arc::clone(&version));
        Some(version)
    }

    /// Accepts no connection and reads no datagram any more, once this returns: another process does.
    pub(crate) async fn stop_taking(&self) {
        for orders in &self.crew.orders {
            let (done, stopped) = oneshot::channel();
            let _ = orders.send(Order::StopTaking(done));
            let _ = stopped.await;
        }
    }

    /// All flows of UDP, which end here, uncounted, and go on in another process.
    pub(crate) async fn give_flows(&self) -> Vec<(FlowForm, OwnedFd)> {
        let mut all = Vec::new();
        for orders in &self.crew.orders {
            let (to, given) = oneshot::channel();
            let _ = orders.send(Order::GiveFlows(to));
            all.extend(given.await.unwrap_or_default());
        }
        all
    }

    /// From now on connections from these networks begin with a PROXY header, and are closed where they don't. Said once, before it is
    /// listened; what is said later changes nothing.
    pub fn expect_headers_from(&self, networks: &[Network]) {
        let _ = self.crew.announcers.set(networks.into());
    }

    /// Takes connections. Of those at a port that another program has as well, only where the table has a service for them.
    pub(crate) fn take(
        &self,
        socket: &TcpListener,
        incoming: &Incoming,
        sharing: Sharing,
    ) -> io::Result<SocketAddr> {
        socket.set_nonblocking(true)?;
        if sharing == Sharing::Joined {
            // It may be the socket of an address that was closed, and is one for something else now.
            shared::socket::take_new(socket)?;
        }
        let at = socket.local_addr()?;
        // All or none.
        let copies: Vec<_> =
            self.crew.orders.iter().map(|_| socket.try_clone()).collect::<io::Result<_>>()?;
        let inode = if sharing == Sharing::Alone { 0 } else { shared::socket::inode(socket)? };
        let form = AddressForm { kind: incoming.kind(), address: at };
        let address = self.address(ListenAddress::new(form, sharing, inode));
        for (orders, socket) in self.crew.orders.iter().zip(copies) {
            let _ = orders.send(Order::Listen(socket, incoming.clone(), Arc::clone(&address)));
        }
        Ok(at)
    }

    /// Puts a table in force. Once this returns, no further call is given to a version by the old one.
    pub async fn apply(&self, form: &TableForm) -> Result<Arc<LiveTable>, TableFault> {
        let (next, acknowledged) = {
            let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
            let next = Arc::new(in_force.next(form)?);
            let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
            leaving.retain(|(_, version)| version.strong_count() > 0);
            leaving.extend(in_force.not_named_by(&next));
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
    pub fn leaving(&self) -> Vec<Leaving> {
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let held = leaving.iter().filter_map(|(service, version)| {
            Some(Leaving { service: service.clone(), version: version.upgrade()? })
        });
        held.collect()
    }

    /// Waits until a version can't be connected to, or could not since this was asked last.
    pub(crate) async fn unreachable(&self) {
        self.crew.unreachable.notified().await;
    }

    /// What was counted after a cursor, until now; see [`call_metrics`]. With `Cursor::default()` it is all that is kept.
    pub async fn counts_since(&self, cursor: Cursor) -> Reading {
        // First, so that no call that ends meanwhile is missing in both.
        let in_flight = self.in_flight();
        self.collector.collect().await;
        Reading { in_flight, ..self.collector.call_metrics().since(cursor) }
    }

    fn in_flight(&self) -> Vec<InFlight> {
        let table = self.table();
        let services = table.services().iter();
        let each =
            services.flat_map(|service| service.versions().iter().map(move |version| (service, version)));
        let found = each.map(|(service, version)| InFlight {
            service: service.name().to_owned(),
            variation: version.name().to_owned(),
            calls: version.in_flight(),
        });
        found.filter(|found| found.calls > 0).collect()
    }

    /// What was counted, and how it goes from process to process.
    pub(crate) fn collector(&self) -> &Collector {
        &self.collector
    }

    /// All that was counted until now and is still kept, as one.
    pub async fn gather(&self) -> Vec<Row> {
        self.collector.collect().await;
        self.collector.call_metrics().sum()
    }

    /// Metrics in the text format of Prometheus, version 0.0.4.
    pub async fn metrics(&self) -> String {
        self.collector.collect().await;
        let mut text = metrics::Text::new();
        text.proxy(&self.table(), (self.connections(), self.flows()), &self.leaving());
        text.counts(&self.collector.call_metrics(), &self.table());
        let log_dropped = self.crew.log.as_ref().map_or(0, Log::dropped);
        let datagrams_dropped = self.crew.datagrams_dropped.load(Ordering::Relaxed);
        text.losses(self.collector.unserved(), log_dropped, datagrams_dropped);
        text.finish()
    }

    /// Waits until the line of every call whose caller has the whole answer is in the access log.
    pub async fn flush_log(&self) {
        if let Some(log) = &self.crew.log {
            // The thread that wrote an answer is done with that call before it does anything else.
            self.collector.collect().await;
            log.flush().await;
        }
    }

    /// Flows of UDP.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.crew.flows.load(Ordering::Relaxed)
    }

    /// Connections of callers.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.crew.connections()
    }

    /// Accepts nothing more and ends each connection with its next answer, until none is left and no flow of UDP, or the time is over.
    /// Gives how many are left. What was counted until then can be read, and is in the access log.
    pub async fn drain(&self, at_most: Duration) -> usize {
        self.end(true, at_most).await
    }

    /// The same. Unless it `is_last`, another process has the sockets, and goes on with them.
    pub(crate) async fn end(&self, is_last: bool, at_most: Duration) -> usize {
        for orders in &self.crew.orders {
            let _ = orders.send(Order::Drain { is_last });
        }
        let until = tokio::time::Instant::now() + at_most;
        while self.connections() + self.flows() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.collector.collect().await;
        self.flush_log().await;
        self.connections() + self.flows()
    }

    /// Bytes of the task that serves a connection, without its buffers, of which it holds none while it is idle.
    #[must_use]
    pub fn connection_bytes() -> usize {
        connection::task_bytes::<tokio::net::TcpStream>()
    }

    /// Whether its connections to versions are marked.
    #[must_use]
    pub(crate) fn marks(&self) -> bool {
        self.crew.limits.mark.is_some()
    }

    /// How many threads serve.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for Proxy {
    /// Ends the threads, and with them what they still carry out: whoever would have it end whole drains first.
    fn drop(&mut self) {
        self.crew.stop();
    }
}
