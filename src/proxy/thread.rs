//! A thread that serves calls: it obeys orders, accepts connections and serves them.

use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, TcpListener as StdListener},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, LocalOptions},
    sync::{mpsc, oneshot},
    task::{JoinHandle, spawn_local},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    caller::Caller,
    connection,
    count::Unserved,
    flow::{self, Listener},
    listen_address::{Accepted, ListenAddress},
    nftables::HANDSHAKE,
    proxy_protocol::{self, Announced},
    secured,
    shared::{
        Sharing,
        accept::{self, is_of_one_connection, usable},
        socket,
    },
    sockets::BACKLOG,
    worker::{Crew, Incoming, Order, Worker, WorkerThread},
};

/// How long accepting rests when it can't go on: too many connections, or no file descriptor left.
const REST: Duration = Duration::from_millis(20);

/// How often it does so for connections that wait at a socket that is closed: for a second.
const MOST_RESTS: usize = 50;

/// How long those are on the way, at most, who connect from this machine: one may wait for a processor in the midst of that.
const LOCAL_HANDSHAKE: Duration = Duration::from_millis(20);

/// How often connections to versions that were idle for too long are closed.
const SWEEP: Duration = Duration::from_secs(5);

/// Serves until it is told to stop, on a thread of its own. `started` hears whether it can.
pub(crate) fn run(
    crew: Arc<Crew>,
    index: usize,
    orders: mpsc::UnboundedReceiver<Order>,
    started: std::sync::mpsc::Sender<io::Result<()>>,
) {
    match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => {
            let _ = started.send(Ok(()));
            drop(started);
            runtime.block_on(serve_orders(crew, index, orders));
        }
        Err(error) => drop(started.send(Err(error))),
    }
}

async fn serve_orders(crew: Arc<Crew>, index: usize, mut orders: mpsc::UnboundedReceiver<Order>) {
    let sources = Rc::new(Sources::new(crew, index));
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Stop) | None => return,
                Some(order) => obey(&sources, order),
            },
            _ = sweep.tick() => sources.sweep(),
        }
    }
}

/// Where a thread takes what comes in.
struct Sources {
    thread: Rc<WorkerThread>,
    /// One a socket, for as long as anybody needs it.
    workers: RefCell<Vec<Rc<Worker>>>,
    accepting: RefCell<Vec<Accepting>>,
    /// Sockets at which datagrams come in.
    listeners: RefCell<Vec<Rc<Listener>>>,
}

/// A task that accepts connections.
struct Accepting {
    worker: Rc<Worker>,
    listener: Listening,
    incoming: Incoming,
    task: JoinHandle<()>,
}

/// A socket at which connections come in.
enum Listening {
    Alone(Rc<TcpListener>),
    /// At a port that another program has as well.
    Shared(Rc<StdListener>),
}

impl Sources {
    fn new(crew: Arc<Crew>, index: usize) -> Self {
        Self {
            thread: Rc::new(WorkerThread::new(crew, index)),
            workers: RefCell::default(),
            accepting: RefCell::default(),
            listeners: RefCell::default(),
        }
    }

    /// This thread, for what comes in at a socket.
    fn worker(&self, address: &Arc<ListenAddress>) -> Rc<Worker> {
        let mut workers = self.workers.borrow_mut();
        if let Some(known) = workers.iter().find(|worker| worker.is_of(address)) {
            return Rc::clone(known);
        }
        let worker = Rc::new(Worker::new(&self.thread, address));
        if address.is_closed() {
            worker.remember_services();
        }
        workers.push(Rc::clone(&worker));
        worker
    }

    /// Takes connections from a socket from now on.
    fn accept(
        &self,
        socket: StdListener,
        incoming: Incoming,
        address: &Arc<ListenAddress>,
    ) -> io::Result<()> {
        let worker = self.worker(address);
        let (listener, task) = if address.sharing == Sharing::Alone {
            let listener = Rc::new(TcpListener::from_std(socket)?);
            let task = spawn_local(accept(Rc::clone(&worker), Rc::clone(&listener), incoming.clone()));
            (Listening::Alone(listener), task)
        } else {
            let socket = Rc::new(socket);
            let (of_task, of_stream) = (Rc::clone(&worker), incoming.clone());
            let take = move |stream| place(&of_task, stream, of_stream.clone());
            let task = spawn_local(accept::accept(Rc::clone(&worker), Rc::clone(&socket), take));
            (Listening::Shared(socket), task)
        };
        self.accepting.borrow_mut().push(Accepting { worker, listener, incoming, task });
        Ok(())
    }

    /// Takes what waits at a shared socket, up to the connection from there; see [`Order::TakeWaiting`].
    fn take_waiting(&self, address: &Arc<ListenAddress>, from: SocketAddr) -> Option<bool> {
        let all = self.accepting.borrow();
        let Accepting { worker, listener, incoming, .. } =
            all.iter().find(|accepting| accepting.worker.is_of(address))?;
        let Listening::Shared(socket) = listener else { return None };
        // Others may come all the while.
        for _ in 0..BACKLOG {
            if worker.crew().connections() >= worker.limits().connections {
                return None;
            }
            match socket::accept_now(socket) {
                Ok((_, peer)) if is_same(peer, from) => return Some(true),
                Ok((stream, _)) => {
                    if let Ok(stream) = usable(stream) {
                        place(worker, stream, incoming.clone());
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(false),
                Err(_) => return None,
            }
        }
        None
    }

    /// Closes a socket at which datagrams came in.
    async fn close(&self, listener: &Rc<Listener>) {
        listener.stopped().await;
        self.listeners.borrow_mut().retain(|known| !Rc::ptr_eq(known, listener));
    }

    fn sweep(&self) {
        self.thread.sweep();
        self.workers.borrow_mut().retain(|worker| Rc::strong_count(worker) > 1);
    }
}

fn obey(sources: &Rc<Sources>, order: Order) {
    match order {
        Order::Table(table, done) => {
            sources.thread.exchange_table(table);
            let _ = done.send(());
        }
        Order::Listen(socket, incoming, address) => {
            if let Err(error) = sources.accept(socket, incoming, &address) {
                tracing::error!(%error, "a listening socket can't be used");
            }
        }
        Order::Serve(stream, incoming, accepted) => match TcpStream::from_std(stream) {
            Ok(stream) => serve(&sources.worker(accepted.address()), stream, incoming, accepted),
            Err(error) => {
                sources.thread.note_unusable();
                tracing::warn!(%error, "an accepted connection can't be used");
            }
        },
        Order::Datagrams(socket, flows, address) => {
            match Listener::start(&sources.worker(&address), socket, flows) {
                Ok(listener) => sources.listeners.borrow_mut().push(listener),
                Err(error) => tracing::error!(%error, "a socket for datagrams can't be used"),
            }
        }
        Order::Close(until_closed, done) => {
            sources.worker(until_closed.address()).remember_services();
            spawn_local(close(Rc::clone(sources), until_closed, done));
        }
        Order::StopTaking(done) => {
            let listeners = sources.listeners.borrow();
            listeners.iter().filter(|one| !one.is_closing()).for_each(|one| one.stop_reading());
            let accepting: Vec<Accepting> = sources.accepting.borrow_mut().drain(..).collect();
            spawn_local(async move {
                for accepting in accepting {
                    accepting.task.abort();
                    let _ = accepting.task.await;
                }
                let _ = done.send(());
            });
        }
        Order::GiveFlows(to) => {
            // A socket that was closed no other process has: its flows end here.
            let mut listeners = sources.listeners.borrow_mut();
            let moved = listeners.extract_if(.., |listener| !listener.is_closing());
            let _ = to.send(moved.flat_map(|listener| listener.give()).collect());
        }
        Order::Acknowledge(done) => {
            let _ = done.send(());
        }
        Order::TakeWaiting(address, from, found) => {
            let _ = found.send(sources.take_waiting(&address, from));
        }
        Order::Gather(done) => {
            sources.thread.hand_over_counts();
            let _ = done.send(());
        }
        Order::Drain { is_last } => {
            sources.thread.begin_draining();
            sources.workers.borrow().iter().for_each(|worker| worker.begin_draining());
            for accepting in sources.accepting.borrow_mut().drain(..) {
                if is_last && accepting.worker.address().sharing == Sharing::Joined {
                    let leaving = Counted::of(&accepting.worker);
                    spawn_local(async move {
                        leave(accepting).await;
                        drop(leaving);
                    });
                } else {
                    accepting.task.abort();
                }
            }
        }
        Order::Stop => {}
    }
}

/// Whether two are one address and port, however they are written.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

/// Takes what waits at a socket that is closed, and then nothing more; sees to it that what came in there ends in time.
async fn close(sources: Rc<Sources>, until_closed: Accepted, done: oneshot::Sender<()>) {
    let address = Arc::clone(until_closed.address());
    let Some(mut until) = address.until() else { return };
    let worker = sources.worker(&address);
    let mut datagrams = sources.listeners.borrow().iter().find(|listener| listener.is_of(&address)).cloned();
    if let Some(listener) = &datagrams {
        // While flows may still begin.
        listener.take_waiting();
    }
    worker.begin_draining();
    let is_of_it = |accepting: &mut Accepting| accepting.worker.is_of(&address);
    let accepting: Vec<Accepting> = sources.accepting.borrow_mut().extract_if(.., is_of_it).collect();
    for accepting in accepting {
        leave(accepting).await;
    }
    // Nothing has it any more before that is said.
    if let Some(listener) = datagrams.take_if(|listener| !listener.has_flows()) {
        sources.close(&listener).await;
    }
    drop(until_closed);
    let _ = done.send(());
    while timeout_at(until, address.drained()).await.is_err() {
        // Flows see by themselves that it is time. What another thread accepted may come here only now, and is cut next.
        worker.cut();
        until = Instant::now() + REST;
    }
    worker.forget_services();
    if let Some(listener) = datagrams {
        sources.close(&listener).await;
    }
}

/// Takes nothing more from a socket, and closes it here: after what waits, unless that is others', too.
async fn leave(Accepting { worker, listener, incoming, task }: Accepting) {
    let sharing = worker.address().sharing;
    if let Listening::Shared(socket) = &listener
        && sharing == Sharing::Joined
        && socket::is_listening(socket)
    {
        let at = worker.address().form.address;
        match socket::refuse_new(socket) {
            // Those who are on their way come in.
            Ok(()) => sleep(if at.ip().is_loopback() { LOCAL_HANDSHAKE } else { HANDSHAKE }).await,
            Err(error) => tracing::warn!(%at, %error, "who connects just now may be reset"),
        }
    }
    task.abort();
    let _ = task.await;
    let socket = match listener {
        Listening::Alone(listener) => Rc::into_inner(listener).map(TcpListener::into_std),
        Listening::Shared(socket) => Rc::into_inner(socket).map(Ok),
    };
    if let Some(Ok(socket)) = socket
        && sharing != Sharing::Lent
        && socket::is_listening(&socket)
    {
        accept_waiting(&worker, socket, &incoming).await;
    }
}

/// Takes the connections that wait in the queue of a socket, and closes it here.
async fn accept_waiting(worker: &Rc<Worker>, listener: StdListener, incoming: &Incoming) {
    let mut rests = 0;
    // Others may come all the while.
    for _ in 0..BACKLOG {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Ok(stream) = usable(stream) {
                    place(worker, stream, incoming.clone());
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            // Nobody is left who waits.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if rests == MOST_RESTS => {
                let at = worker.address().form.address;
                tracing::error!(%at, %error, "connections that wait at an address that is closed can't be accepted, and are reset");
                return;
            }
            // Perhaps others end meanwhile, and leave a file descriptor.
            Err(_) => {
                rests += 1;
                sleep(REST).await;
            }
        }
    }
}

async fn accept(worker: Rc<Worker>, listener: Rc<TcpListener>, incoming: Incoming) {
    let crew = worker.crew();
    loop {
        if crew.connections() >= crew.limits.connections {
            sleep(REST).await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => place(&worker, stream, incoming.clone()),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted for now");
                sleep(REST).await;
            }
        }
    }
}

/// Serves a connection on the thread that has the fewest.
fn place(worker: &Rc<Worker>, stream: TcpStream, incoming: Incoming) {
    let (crew, here, accepted) = (worker.crew(), worker.index(), worker.address().accept());
    let least = crew.least_loaded();
    let count = |index: usize| crew.connections[index].load(Ordering::Relaxed);
    let goes_to = if count(least) < count(here) { least } else { here };
    crew.connections[goes_to].fetch_add(1, Ordering::Relaxed);
    if goes_to == here {
        return serve(worker, stream, incoming, accepted);
    }
    let sent =
        stream.into_std().map(|stream| crew.orders[goes_to].send(Order::Serve(stream, incoming, accepted)));
    if !matches!(sent, Ok(Ok(()))) {
        crew.connections[goes_to].fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(worker: &Rc<Worker>, mut stream: TcpStream, incoming: Incoming, accepted: Accepted) {
    let number = worker.next_number();
    let brings_calls = matches!(incoming, Incoming::Calls | Incoming::Secured(_));
    let counted = Counted { worker: Rc::clone(worker), number, _accepted: accepted };
    let of_task = Rc::clone(worker);
    let task = spawn_local(async move {
        let worker = of_task;
        if stream.set_nodelay(true).is_ok()
            && let (Ok(peer), Ok(here)) = (stream.peer_addr(), stream.local_addr())
        {
            let mut caller = Caller::of(peer, here);
            let is_announced = worker.crew().is_announcer(caller.address);
            if is_announced && !Box::pin(announced(&mut stream, &mut caller, &worker)).await {
                return;
            }
            match incoming {
                Incoming::Calls => connection::serve(stream, caller, worker).await,
                Incoming::Secured(tls) => Box::pin(secured::serve(stream, caller, &tls, worker)).await,
                Incoming::Tcp => Box::pin(flow::serve_tcp(stream, caller, worker)).await,
                Incoming::Named => Box::pin(flow::serve_named(stream, caller, worker)).await,
            }
        }
        drop(counted);
    });
    if brings_calls {
        worker.note_calling(number, task.abort_handle());
    }
}

/// Takes the header in which a connection says who the caller is; false where there is none, which ends it.
async fn announced(stream: &mut TcpStream, caller: &mut Caller, worker: &Worker) -> bool {
    let read = timeout(worker.limits().handshake, proxy_protocol::read(stream)).await;
    match read.map_err(io::Error::from).flatten() {
        Ok(Announced::Itself) => true,
        Ok(Announced::From { source, destination }) => {
            caller.address = source.ip().to_canonical();
            caller.own_port = source.port();
            caller.destination = destination;
            true
        }
        Err(error) => {
            let peer = caller.address;
            tracing::debug!(%peer, %error, "a connection has no PROXY header, which it should begin with");
            worker.counts().note_unserved(Unserved::Refused);
            false
        }
    }
}

/// A connection among those of its worker, until it is dropped.
struct Counted {
    worker: Rc<Worker>,
    number: u64,
    _accepted: Accepted,
}

impl Counted {
    /// What isn't a connection counts as one of a worker's.
    fn of(worker: &Rc<Worker>) -> Self {
        worker.crew().connections[worker.index()].fetch_add(1, Ordering::Relaxed);
        let (number, accepted) = (worker.next_number(), worker.address().accept());
        Self { worker: Rc::clone(worker), number, _accepted: accepted }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.worker.crew().connections[self.worker.index()].fetch_sub(1, Ordering::Relaxed);
        self.worker.forget(self.number);
    }
}
