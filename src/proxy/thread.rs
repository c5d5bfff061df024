//! A thread that serves calls: it obeys orders, accepts connections and serves them.

use std::{
    cell::RefCell,
    io,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, LocalOptions},
    sync::mpsc,
    task::{AbortHandle, spawn_local},
    time::timeout,
};

use crate::{
    caller::Caller,
    connection,
    count::Unserved,
    flow::{self, Listener},
    proxy_protocol::{self, Announced},
    secured,
    worker::{Crew, Incoming, Order, Worker},
};

/// How long accepting rests when it can't go on: too many connections, or no file descriptor left.
const REST: Duration = Duration::from_millis(20);

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
    let worker = Rc::new(Worker::new(crew, index));
    let (accepting, listeners) = (RefCell::default(), RefCell::default());
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Stop) | None => return,
                Some(order) => obey(&worker, (&accepting, &listeners), order),
            },
            _ = sweep.tick() => worker.sweep(),
        }
    }
}

/// Tasks that accept connections, and sockets at which datagrams come in.
type Sources<'s> = (&'s RefCell<Vec<AbortHandle>>, &'s RefCell<Vec<Rc<Listener>>>);

fn obey(worker: &Rc<Worker>, (accepting, listeners): Sources<'_>, order: Order) {
    match order {
        Order::Table(table, done) => {
            worker.exchange_table(table);
            let _ = done.send(());
        }
        Order::Listen(listener, incoming) => match TcpListener::from_std(listener) {
            Ok(listener) => {
                let task = spawn_local(accept(Rc::clone(worker), listener, incoming));
                accepting.borrow_mut().push(task.abort_handle());
            }
            Err(error) => tracing::error!(%error, "a listening socket can't be used"),
        },
        Order::Serve(stream, incoming) => match TcpStream::from_std(stream) {
            Ok(stream) => serve(worker, stream, incoming),
            Err(error) => {
                worker.crew().connections[worker.index()].fetch_sub(1, Ordering::Relaxed);
                tracing::warn!(%error, "an accepted connection can't be used");
            }
        },
        Order::Datagrams(socket, flows) => match Listener::start(worker, socket, flows) {
            Ok(listener) => listeners.borrow_mut().push(listener),
            Err(error) => tracing::error!(%error, "a socket for datagrams can't be used"),
        },
        Order::StopReading(done) => {
            listeners.borrow().iter().for_each(|listener| listener.stop_reading());
            let _ = done.send(());
        }
        Order::GiveFlows(to) => {
            let _ = to.send(listeners.borrow().iter().flat_map(|listener| listener.give()).collect());
        }
        Order::Gather(done) => {
            worker.hand_over_counts();
            let _ = done.send(());
        }
        Order::Drain => {
            worker.begin_draining();
            accepting.borrow_mut().drain(..).for_each(|task| task.abort());
        }
        Order::Stop => {}
    }
}

async fn accept(worker: Rc<Worker>, listener: TcpListener, incoming: Incoming) {
    let crew = worker.crew();
    loop {
        if crew.connections() >= crew.limits.connections {
            tokio::time::sleep(REST).await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => place(&worker, stream, incoming.clone()),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted for now");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// Serves a connection on the thread that has the fewest.
fn place(worker: &Rc<Worker>, stream: TcpStream, incoming: Incoming) {
    let (crew, here) = (worker.crew(), worker.index());
    let least = crew.least_loaded();
    let count = |index: usize| crew.connections[index].load(Ordering::Relaxed);
    let goes_to = if count(least) < count(here) { least } else { here };
    crew.connections[goes_to].fetch_add(1, Ordering::Relaxed);
    if goes_to == here {
        return serve(worker, stream, incoming);
    }
    let sent = stream.into_std().map(|stream| crew.orders[goes_to].send(Order::Serve(stream, incoming)));
    if !matches!(sent, Ok(Ok(()))) {
        crew.connections[goes_to].fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(worker: &Rc<Worker>, mut stream: TcpStream, incoming: Incoming) {
    let worker = Rc::clone(worker);
    spawn_local(async move {
        let counted = Counted(Rc::clone(&worker));
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
struct Counted(Rc<Worker>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.crew().connections[self.0.index()].fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the trouble is the connection's alone, so that the next one can be accepted at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
