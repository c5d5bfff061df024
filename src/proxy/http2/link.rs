use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use h2::client::{self, SendRequest};
use tokio::{sync::Mutex, time::Instant};

use crate::{Limits, live::Target, pool};

/// Calls that a connection carries before a further one is made.
const CALLS: usize = 100;
/// Connections that a thread has to a target.
const LINKS: usize = 16;
/// How much a version may send of a body before its caller took any of it, and of all bodies of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const LINK_WINDOW: u32 = 4 * 1024 * 1024;
/// How much memory small frames of a connection may take beside what is in them, while their callers are slow: at this limit all calls
/// of the connection end, so it is one that no stream of small messages comes to.
const FRAMES: usize = 64 * 1024 * 1024;
/// How much is held of a call's body that the version has room for and the connection hasn't taken yet.
const SEND_BUFFER: usize = 256 * 1024;
/// The most bytes of an answer's head.
const HEAD_BYTES: u32 = 256 * 1024;

/// A thread's connections of HTTP/2 to a target.
#[derive(Debug, Default)]
pub(crate) struct Links {
    ready: RefCell<Vec<Rc<Link>>>,
    /// Held while one is made, so that calls that come together don't make one each.
    making: Mutex<()>,
}

/// A connection, which many calls share.
#[derive(Debug)]
struct Link {
    send: SendRequest<Bytes>,
    calls: Cell<usize>,
    /// It ended, or takes no further call.
    is_over: Rc<Cell<bool>>,
    idle_until: Cell<Instant>,
    keep: Duration,
}

/// A call's part in a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ride {
    link: Rc<Link>,
    /// The connection was made for this call.
    pub is_new: bool,
}

impl Links {
    /// A connection that takes a call: one that is there, or a new one.
    pub(crate) async fn take(&self, target: &Target, limits: &Limits) -> io::Result<Ride> {
        if let Some(link) = self.pick() {
            return Ok(Ride::on(link, false));
        }
        let making = self.making.lock().await;
        if let Some(link) = self.pick() {
            return Ok(Ride::on(link, false));
        }
        let link = Rc::new(Link::make(target, limits).await?);
        self.ready.borrow_mut().push(Rc::clone(&link));
        drop(making);
        Ok(Ride::on(link, true))
    }

    /// The one with the fewest calls, unless there should be more.
    fn pick(&self) -> Option<Rc<Link>> {
        let mut ready = self.ready.borrow_mut();
        ready.retain(|link| link.takes_calls());
        let least = ready.iter().min_by_key(|link| link.calls.get())?;
        let is_full = least.calls.get() >= least.send.current_max_send_streams().min(CALLS);
        (!is_full || ready.len() >= LINKS).then(|| Rc::clone(least))
    }

    /// Ends connections that were idle for too long.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.ready.borrow_mut().retain(|link| link.calls.get() > 0 || link.idle_until.get() > now);
    }
}

impl Link {
    async fn make(target: &Target, limits: &Limits) -> io::Result<Self> {
        let stream = pool::connect(target, limits).await?;
        let mut builder = client::Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(LINK_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .data_frame_budget(FRAMES)
            .max_header_list_size(HEAD_BYTES);
        let handshake = tokio::time::timeout(limits.connect, builder.handshake(stream)).await;
        let (send, connection) = handshake.map_err(|_| io::ErrorKind::TimedOut)?.map_err(io::Error::other)?;
        let is_over = Rc::new(Cell::new(false));
        let ended = Rc::clone(&is_over);
        // It ends when the version ends it, or when nobody has a part in it any more.
        tokio::task::spawn_local(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a version ended");
            }
            ended.set(true);
        });
        let keep = limits.pooled;
        let idle_until = Cell::new(Instant::now() + keep);
        Ok(Self { send, calls: Cell::new(0), is_over, idle_until, keep })
    }

    /// Whether it takes a further call; not after the version said that it is going away.
    fn takes_calls(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        !self.is_over.get() && matches!(self.send.clone().poll_ready(&mut cx), Poll::Ready(Ok(())))
    }
}

impl Ride {
    fn on(link: Rc<Link>, is_new: bool) -> Self {
        link.calls.set(link.calls.get() + 1);
        Self { link, is_new }
    }

    pub(crate) fn send(&self) -> SendRequest<Bytes> {
        self.link.send.clone()
    }

    /// No further call is given to this connection.
    pub(crate) fn retire(&self) {
        self.link.is_over.set(true);
    }
}

impl Drop for Ride {
    fn drop(&mut self) {
        self.link.calls.set(self.link.calls.get() - 1);
        self.link.idle_until.set(Instant::now() + self.link.keep);
    }
}
