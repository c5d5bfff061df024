//! What a thread that serves calls has of its own: its view of the table, what it counted; and what all of them share.
//!
//! What comes in at a listening socket sees the thread through a [`Worker`] of that socket's: one that is closed drains by itself.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    net::{IpAddr, SocketAddr, TcpListener as StdListener},
    os::fd::OwnedFd,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::AbortHandle,
    time::Instant,
};
use traffic::Failure;

use crate::{
    Limits,
    access_log::{Line, Log},
    buffers::Buffers,
    count::{Counts, ThreadShard},
    flow::{AdoptedFlow, FlowForm},
    form::AddressKind,
    listen_address::{Accepted, ListenAddress},
    live::{LiveTable, Local, Route, Version},
    pool::Pools,
    proxy_protocol::Network,
    tls::Tls,
};
use call_metrics::Timeline;

/// What a worker is told.
pub(crate) enum Order {
    /// From now on this table holds. Answered once no further call of this thread is given by the old one.
    Table(Arc<LiveTable>, oneshot::Sender<()>),
    /// Takes connections from a socket.
    Listen(StdListener, Incoming, Arc<ListenAddress>),
    /// A connection that another thread accepted.
    Serve(std::net::TcpStream, Incoming, Accepted),
    /// Takes datagrams from a socket, of which no other worker hears, after the flows that were there already.
    Datagrams(std::net::UdpSocket, Vec<AdoptedFlow>, Arc<ListenAddress>),
    /// Takes nothing more from a socket, after what waits there. Answered once the socket is closed here, or waits for its flows alone.
    /// What comes along counts as a connection until then, so that no thread takes the address for drained while another one accepts.
    Close(Accepted, oneshot::Sender<()>),
    /// Takes nothing more from sockets of which another process takes what comes in. Answered once that is so: nobody accepts here, those
    /// of TCP are closed, and no datagram is read.
    StopTaking(oneshot::Sender<()>),
    /// Another process goes on with the flows of those sockets, which end here.
    GiveFlows(oneshot::Sender<Vec<(FlowForm, OwnedFd)>>),
    /// Answered at once: what was so before holds on this thread by then.
    Acknowledge(oneshot::Sender<()>),
    /// Takes what waits at a socket that another program has as well, up to the connection that was made from there. Answered with whether
    /// that was still among it; none: it can't be told.
    TakeWaiting(Arc<ListenAddress>, SocketAddr, oneshot::Sender<Option<bool>>),
    /// What was counted goes into the shard. Answered once it is there.
    Gather(oneshot::Sender<()>),
    /// Accepts nothing more, and ends each connection with its next answer. Unless this process `is_last`, another one goes on with its
    /// sockets.
    Drain { is_last: bool },
    /// Ends the thread, and with it what it still carries out.
    Stop,
}

/// What comes over a connection.
#[derive(Debug, Clone)]
pub(crate) enum Incoming {
    Calls,
    /// The same, over TLS.
    Secured(Arc<Tls>),
    /// Whatever it is: it is for the service of the port.
    Tcp,
    /// TLS that passes unopened, to the service that the caller names.
    Named,
}

impl Incoming {
    pub(crate) fn kind(&self) -> AddressKind {
        match self {
            Self::Calls => AddressKind::Http,
            Self::Secured(_) => AddressKind::Https,
            Self::Tcp => AddressKind::Tcp,
            Self::Named => AddressKind::Tls,
        }
    }
}

/// What all workers know of each other.
#[derive(Debug)]
pub(crate) struct Crew {
    pub limits: Limits,
    /// Connections of each worker.
    pub connections: Box<[AtomicUsize]>,
    pub orders: Box<[mpsc::UnboundedSender<Order>]>,
    pub timeline: Arc<Timeline>,
    pub shard: ThreadShard,
    pub log: Option<Log>,
    /// Whose PROXY headers are believed, and needed.
    pub announcers: OnceLock<Box<[Network]>>,
    /// Flows of UDP, and datagrams that went nowhere.
    pub flows: AtomicUsize,
    pub datagrams_dropped: AtomicU64,
    /// A version could not be connected to.
    pub unreachable: Notify,
}

impl Crew {
    pub(crate) fn connections(&self) -> usize {
        self.connections.iter().map(|of_one| of_one.load(Ordering::Relaxed)).sum()
    }

    /// Whether connections of this address begin with a PROXY header.
    pub(crate) fn is_announcer(&self, address: IpAddr) -> bool {
        let networks = self.announcers.get();
        networks.is_some_and(|networks| networks.iter().any(|network| network.contains(address)))
    }

    /// Ends all threads, and with them what they still carry out.
    pub(crate) fn stop(&self) {
        for orders in &self.orders {
            let _ = orders.send(Order::Stop);
        }
    }

    pub(crate) fn least_loaded(&self) -> usize {
        let loads = self.connections.iter().map(|of_one| of_one.load(Ordering::Relaxed));
        loads.enumerate().min_by_key(|&(_, load)| load).map_or(0, |(index, _)| index)
    }
}

/// What is a thread's own.
#[derive(Debug)]
pub(crate) struct WorkerThread {
    crew: Arc<Crew>,
    index: usize,
    local: RefCell<Rc<Local>>,
    /// Told of each table.
    tables: watch::Sender<()>,
    pools: Pools,
    counts: Counts,
    /// Everything drains, whatever socket it came in at.
    is_draining: Cell<bool>,
    /// Bytes of bodies that are kept for repeats.
    kept: Cell<usize>,
    buffers: Buffers,
    /// Copies of calls, under way and waiting.
    copies: Rc<Cell<usize>>,
}

/// A thread, as what came in at one listening socket sees it.
#[derive(Debug)]
pub(crate) struct Worker {
    thread: Rc<WorkerThread>,
    address: Arc<ListenAddress>,
    is_draining: Cell<bool>,
    /// Wakes who waits for draining to begin.
    drain_began: Notify,
    /// Connections that bring calls, by number.
    calling: RefCell<HashMap<u64, AbortHandle>>,
    last_number: Cell<u64>,
    /// What was led there when the socket was closed.
    former: RefCell<Option<Rc<Local>>>,
}

impl WorkerThread {
    pub(crate) fn new(crew: Arc<Crew>, index: usize) -> Self {
        let counts = Counts::new(Arc::clone(&crew.timeline));
        let pools = Pools::default();
        let local = Local::new(Arc::new(LiveTable::empty()), None, &pools);
        Self {
            crew,
            counts,
            index,
            local: RefCell::new(Rc::new(local)),
            tables: watch::Sender::new(()),
            pools,
            is_draining: Cell::new(false),
            kept: Cell::new(0),
            buffers: Buffers::default(),
            copies: Rc::default(),
        }
    }

    /// From now on this table holds.
    pub(crate) fn exchange_table(&self, table: Arc<LiveTable>) {
        let before = Rc::clone(&self.local.borrow());
        let next = Local::new(table, Some(&before), &self.pools);
        before.cut_shadows(&next, &self.counts);
        *self.local.borrow_mut() = Rc::new(next);
        self.tables.send_replace(());
    }

    /// Closes connections to versions that were idle for too long.
    pub(crate) fn sweep(&self) {
        self.pools.sweep();
    }

    /// What was counted goes into the shard.
    pub(crate) fn hand_over_counts(&self) {
        self.crew.shard.put(self.counts.take(Instant::now()));
    }

    /// From now on whatever comes in drains at once.
    pub(crate) fn begin_draining(&self) {
        self.is_draining.set(true);
    }

    /// One of its connections is none after all.
    pub(crate) fn note_unusable(&self) {
        self.crew.connections[self.index].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Worker {
    pub(crate) fn new(thread: &Rc<WorkerThread>, address: &Arc<ListenAddress>) -> Self {
        Self {
            is_draining: Cell::new(thread.is_draining.get() || address.is_closed()),
            thread: Rc::clone(thread),
            address: Arc::clone(address),
            drain_began: Notify::new(),
            calling: RefCell::default(),
            last_number: Cell::new(0),
            former: RefCell::default(),
        }
    }

    /// Where its socket listens.
    pub(crate) fn address(&self) -> &Arc<ListenAddress> {
        &self.address
    }

    /// Whether it is that of this socket.
    pub(crate) fn is_of(&self, address: &Arc<ListenAddress>) -> bool {
        Arc::ptr_eq(&self.address, address)
    }

    /// A number for a connection that brings calls.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number.set(self.last_number.get() + 1);
        self.last_number.get()
    }

    /// A connection of this number brings calls, until [`Worker::forget`].
    pub(crate) fn note_calling(&self, number: u64, task: AbortHandle) {
        self.calling.borrow_mut().insert(number, task);
    }

    pub(crate) fn forget(&self, number: u64) {
        self.calling.borrow_mut().remove(&number);
    }

    /// Ends all connections that bring calls.
    pub(crate) fn cut(&self) {
        self.calling.borrow().values().for_each(AbortHandle::abort);
    }

    /// No connection to a target of a version could be made.
    pub(crate) fn note_unreachable(&self) {
        self.thread.crew.unreachable.notify_one();
    }

    /// From now on each connection ends with its next answer.
    pub(crate) fn begin_draining(&self) {
        self.is_draining.set(true);
        self.drain_began.notify_waiters();
        // Those that go by the table look when they have to end.
        self.thread.tables.send_replace(());
    }

    pub(crate) fn crew(&self) -> &Crew {
        &self.thread.crew
    }

    pub(crate) fn index(&self) -> usize {
        self.thread.index
    }

    pub(crate) fn local(&self) -> Rc<Local> {
        Rc::clone(&self.thread.local.borrow())
    }

    /// Its socket is closed: a connection that came in there has one more call answered, also by a service that no table has any more.
    pub(crate) fn remember_services(&self) {
        let now = self.local();
        let there = now.table().at_port(self.address.form.address.port());
        *self.former.borrow_mut() = Some(Rc::new(Local::new(Arc::new(there), Some(&now), self.pools())));
    }

    /// Nobody is left of those for whom they were remembered.
    pub(crate) fn forget_services(&self) {
        *self.former.borrow_mut() = None;
    }

    /// Where a call leads. `at`: the port that it came in on, and its host.
    pub(crate) fn route<'t>(
        &self,
        at: (u16, Option<&[u8]>),
        target: &'t str,
    ) -> Option<(Rc<Local>, Route<'t>)> {
        let local = self.local();
        if let Some(former) = &*self.former.borrow()
            && let Some(route) = former.table().route(at, target)
        {
            let name = former.table().services()[route.index].name();
            return Some(match local.table().index_of(name) {
                Some(index) => (local, Route { index, ..route }),
                None => (Rc::clone(former), route),
            });
        }
        let route = local.table().route(at, target)?;
        Some((local, route))
    }

    /// The line in the access log of what is no call of HTTP, if it is to have one.
    pub(crate) fn flow_line(&self) -> Option<Box<Line>> {
        let number = |local: &Local| (local.table().epoch(), local.table().generation());
        self.log().map(|log| Box::new(log.line(None, number(&self.local()))))
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.thread.pools
    }

    /// Whether the table in force has a service for all that comes in here.
    pub(crate) fn is_wanted(&self) -> bool {
        let (transport, port) = (self.address.transport(), self.address.form.address.port());
        self.thread.local.borrow().table().has_port(transport, port)
    }

    /// Hears of each table from now on.
    pub(crate) fn tables(&self) -> watch::Receiver<()> {
        self.thread.tables.subscribe()
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.thread.counts
    }

    /// The access log, if this call is to be in it.
    pub(crate) fn log(&self) -> Option<&Log> {
        self.thread.crew.log.as_ref().filter(|log| log.wants())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.thread.crew.limits
    }

    /// Bytes of bodies that are kept for repeats.
    pub(crate) fn kept(&self) -> &Cell<usize> {
        &self.thread.kept
    }

    /// Buffers that nobody uses just now.
    pub(crate) fn buffers(&self) -> &Buffers {
        &self.thread.buffers
    }

    /// Copies of calls, under way and waiting.
    pub(crate) fn copies(&self) -> &Rc<Cell<usize>> {
        &self.thread.copies
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Waits until draining begins.
    pub(crate) async fn drained(&self) {
        let began = self.drain_began.notified();
        if !self.is_draining() {
            began.await;
        }
    }

    /// Whether each connection ends with its next answer, as it will be when it is looked at.
    pub(crate) fn draining(&self) -> &Cell<bool> {
        &self.is_draining
    }

    /// Says that a version failed a call and nothing could be done about it.
    pub(crate) fn report_failure(version: &Version, is_base: bool, failure: Failure, why: &str) {
        let (version, failure) = (version.name(), failure.name());
        if is_base {
            tracing::error!(
                version,
                failure,
                why,
                "the stable version failed a call, which nobody else can answer"
            );
        } else {
            tracing::warn!(version, failure, why, "a version failed a call that may not be repeated");
        }
    }
}
