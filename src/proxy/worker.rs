//! A thread that serves calls: its connections, its view of the table, what it counted.

use std::{
    cell::{Cell, RefCell},
    io,
    net::TcpListener as StdListener,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::LocalSet,
    time::Instant,
};
use traffic::Failure;

use crate::{
    Limits,
    access_log::Log,
    connection::{self, Caller},
    count::{Basket, Counts},
    ledger::Timeline,
    live::{LiveTable, Local, Version},
};

/// How long accepting rests when it can't go on: too many connections, or no file descriptor left.
const REST: Duration = Duration::from_millis(20);

/// How often connections to versions that were idle for too long are closed.
const SWEEP: Duration = Duration::from_secs(5);

/// What a worker is told.
pub(crate) enum Order {
    /// From now on this table holds. Answered once no further call of this thread is given by the old one.
    Table(Arc<LiveTable>, oneshot::Sender<()>),
    Listen(StdListener),
    /// A connection that another thread accepted.
    Serve(std::net::TcpStream),
    /// What was counted goes into the basket. Answered once it is there.
    Gather(oneshot::Sender<()>),
    /// Accepts nothing more, and ends each connection with its next answer.
    Drain,
}

/// What all workers know of each other.
#[derive(Debug)]
pub(crate) struct Crew {
    pub limits: Limits,
    /// Connections of each worker.
    pub connections: Box<[AtomicUsize]>,
    pub orders: Box<[mpsc::UnboundedSender<Order>]>,
    pub timeline: Arc<Timeline>,
    pub basket: Basket,
    pub log: Option<Log>,
}

impl Crew {
    pub(crate) fn connections(&self) -> usize {
        self.connections.iter().map(|of_one| of_one.load(Ordering::Relaxed)).sum()
    }

    fn least_loaded(&self) -> usize {
        let loads = self.connections.iter().map(|of_one| of_one.load(Ordering::Relaxed));
        loads.enumerate().min_by_key(|&(_, load)| load).map_or(0, |(index, _)| index)
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    crew: Arc<Crew>,
    index: usize,
    local: RefCell<Rc<Local>>,
    counts: Counts,
    is_draining: Cell<bool>,
    /// Bytes of bodies that are kept for repeats.
    kept: Cell<usize>,
    accepting: RefCell<Vec<tokio::task::AbortHandle>>,
}

impl Worker {
    /// Serves until everybody who gives orders is gone and no connection is left.
    pub(crate) async fn run(crew: Arc<Crew>, index: usize, mut orders: mpsc::UnboundedReceiver<Order>) {
        let table = Rc::new(Local::new(Arc::new(LiveTable::empty()), None));
        let counts = Counts::new(Arc::clone(&crew.timeline));
        let worker = Rc::new(Self {
            crew,
            counts,
            index,
            local: RefCell::new(table),
            is_draining: Cell::new(false),
            kept: Cell::new(0),
            accepting: RefCell::default(),
        });
        let tasks = LocalSet::new();
        tasks
            .run_until(async {
                let mut sweep = tokio::time::interval(SWEEP);
                loop {
                    tokio::select! {
                        order = orders.recv() => match order {
                            Some(order) => worker.obey(order),
                            None => return,
                        },
                        _ = sweep.tick() => worker.local().sweep(),
                    }
                }
            })
            .await;
    }

    fn obey(self: &Rc<Self>, order: Order) {
        match order {
            Order::Table(table, done) => {
                let next = Local::new(table, Some(&**self.local.borrow()));
                *self.local.borrow_mut() = Rc::new(next);
                let _ = done.send(());
            }
            Order::Listen(listener) => match TcpListener::from_std(listener) {
                Ok(listener) => {
                    let task = tokio::task::spawn_local(Rc::clone(self).accept(listener));
                    self.accepting.borrow_mut().push(task.abort_handle());
                }
                Err(error) => tracing::error!(%error, "a listening socket can't be used"),
            },
            Order::Serve(stream) => match TcpStream::from_std(stream) {
                Ok(stream) => self.serve(stream),
                Err(error) => {
                    self.crew.connections[self.index].fetch_sub(1, Ordering::Relaxed);
                    tracing::warn!(%error, "an accepted connection can't be used");
                }
            },
            Order::Gather(done) => {
                self.crew.basket.put(self.counts.take(Instant::now()));
                let _ = done.send(());
            }
            Order::Drain => {
                self.is_draining.set(true);
                self.accepting.borrow_mut().drain(..).for_each(|task| task.abort());
            }
        }
    }

    async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            if self.crew.connections() >= self.crew.limits.connections {
                tokio::time::sleep(REST).await;
                continue;
            }
            match listener.accept().await {
                Ok((stream, _)) => self.place(stream),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted for now");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Serves a connection on the thread that has the fewest.
    fn place(self: &Rc<Self>, stream: TcpStream) {
        let least = self.crew.least_loaded();
        let count = |index: usize| self.crew.connections[index].load(Ordering::Relaxed);
        let goes_to = if count(least) < count(self.index) { least } else { self.index };
        self.crew.connections[goes_to].fetch_add(1, Ordering::Relaxed);
        if goes_to == self.index {
            return self.serve(stream);
        }
        let sent = stream.into_std().map(|stream| self.crew.orders[goes_to].send(Order::Serve(stream)));
        if !matches!(sent, Ok(Ok(()))) {
            self.crew.connections[goes_to].fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn serve(self: &Rc<Self>, stream: TcpStream) {
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let counted = Counted(Rc::clone(&worker));
            if stream.set_nodelay(true).is_ok()
                && let Ok(peer) = stream.peer_addr()
            {
                let caller = Caller { address: peer.ip().to_canonical(), scheme: "http" };
                connection::serve(stream, caller, worker).await;
            }
            drop(counted);
        });
    }

    pub(crate) fn local(&self) -> Rc<Local> {
        Rc::clone(&self.local.borrow())
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The access log, if this call is to be in it.
    pub(crate) fn log(&self) -> Option<&Log> {
        self.crew.log.as_ref().filter(|log| log.wants())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.crew.limits
    }

    /// Bytes of bodies that are kept for repeats.
    pub(crate) fn kept(&self) -> &Cell<usize> {
        &self.kept
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// The same, as it will be when it is looked at.
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

/// A connection among those of its worker, until it is dropped.
struct Counted(Rc<Worker>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.crew.connections[self.0.index].fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the trouble is the connection's alone, so that the next one can be accepted at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
