//! A caller's connection of HTTP/2: many calls at once.

use std::{cell::Cell, future::poll_fn, rc::Rc, time::Duration};

use bytes::{Bytes, BytesMut};
use h2::{
    Ping, PingPong, Reason,
    server::{self, Connection},
};
use tokio::{
    sync::Notify,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use super::{Rewound, call::call, routing::Outcome};
use crate::{
    Limits, caller::Caller, connection::linger, connection_timeout::ConnectionTimeout, stream::Stream,
    worker::Worker,
};

/// How much a caller may send of a body before its version took any of it, and of all bodies of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// How much memory small frames of a connection may take beside what is in them, while the versions are slow. Above: it is ended.
const FRAMES: usize = 4 * 1024 * 1024;
/// How much is held of an answer's body that the caller has room for and the connection hasn't taken yet.
const SEND_BUFFER: usize = 256 * 1024;

/// What the calls of a connection tell it.
struct Calls {
    running: Cell<usize>,
    ended: Cell<Instant>,
    resets: Cell<Resets>,
    most_resets: u32,
    too_many: Notify,
}

/// Calls that were taken back in the minute since `from`.
#[derive(Clone, Copy)]
struct Resets {
    from: Instant,
    count: u32,
}

/// A call that runs, until it is dropped.
struct Running(Rc<Calls>);

/// Serves a connection until it ends.
pub(crate) async fn serve<S: Stream>(stream: Rewound<S>, caller: Caller, worker: Rc<Worker>) {
    let shared = stream.share();
    if let End::Said = serve_calls(stream, caller, &worker).await
        && let Some(stream) = Rc::into_inner(shared)
    {
        // What the caller sends on its way out would otherwise cost it what it hasn't read yet.
        let mut time_limit = ConnectionTimeout::new(worker.limits().connect);
        linger(&mut stream.into_inner(), &mut BytesMut::new(), &mut time_limit).await;
    }
}

/// How a connection ended.
enum End {
    /// The caller was told, or told it.
    Said,
    /// Nobody is there.
    Gone,
}

async fn serve_calls<S: Stream>(stream: Rewound<S>, caller: Caller, worker: &Rc<Worker>) -> End {
    let limits = worker.limits();
    let handshake = timeout(limits.head_time, builder(limits).handshake(stream));
    let Ok(Ok(mut connection)) = handshake.await else {
        return End::Gone;
    };
    let Some(mut pings) = connection.ping_pong().map(Pings::new) else {
        return End::Gone;
    };
    let calls = Rc::new(Calls::new(limits));
    let mut leaving = Leaving::default();
    // A connection that shows no sign of life from one tick to the next is dead.
    let mut tick = interval((limits.idle / 2).max(Duration::from_millis(10)));
    tick.reset();
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let running = Running::start(&calls);
                    let worker = Rc::clone(worker);
                    tokio::task::spawn_local(async move {
                        let outcome = call(request, respond, caller, worker).await;
                        running.end(outcome);
                    });
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "a caller's connection of HTTP/2 ended");
                    return End::Said;
                }
                None => return End::Said,
            },
            () = worker.drained(), if !leaving.is_begun() => leaving.begin(&mut connection),
            () = calls.too_many.notified() => {
                tracing::warn!(caller = %caller.address, "a caller took back too many calls; its connection is ended");
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            }
            () = pings.answered() => {}
            _ = tick.tick() => {
                let idle = calls.idle();
                if pings.is_unanswered() || (leaving.is_late(limits) && idle.is_some()) {
                    return End::Gone;
                }
                pings.send();
                if !leaving.is_begun() && idle.is_some_and(|idle| idle >= limits.idle) {
                    leaving.begin(&mut connection);
                }
            }
        }
    }
}

fn builder(limits: &Limits) -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        // Calls that are taken back before they were looked at: all that a caller may have at once.
        .max_pending_accept_reset_streams(limits.streams as usize)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .data_frame_budget(FRAMES)
        .max_send_buffer_size(SEND_BUFFER);
    builder
}

/// Saying farewell: calls that the caller sent before hearing of it are carried out, and then the connection ends.
#[derive(Default)]
struct Leaving {
    since: Option<Instant>,
}

impl Leaving {
    fn is_begun(&self) -> bool {
        self.since.is_some()
    }

    fn begin<S: Stream>(&mut self, connection: &mut Connection<Rewound<S>, Bytes>) {
        self.since = Some(Instant::now());
        connection.graceful_shutdown();
    }

    /// Whether the caller should have heard of it.
    fn is_late(&self, limits: &Limits) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= limits.head_time)
    }
}

/// Whether the caller is there.
struct Pings {
    pings: PingPong,
    is_awaited: bool,
}

impl Pings {
    fn new(pings: PingPong) -> Self {
        Self { pings, is_awaited: false }
    }

    fn is_unanswered(&self) -> bool {
        self.is_awaited
    }

    fn send(&mut self) {
        self.is_awaited = self.pings.send_ping(Ping::opaque()).is_ok();
    }

    /// Waits until what was asked is answered.
    async fn answered(&mut self) {
        if !self.is_awaited {
            return std::future::pending().await;
        }
        let _ = poll_fn(|cx| self.pings.poll_pong(cx)).await;
        self.is_awaited = false;
    }
}

impl Calls {
    fn new(limits: &Limits) -> Self {
        let from = Instant::now();
        Self {
            running: Cell::new(0),
            ended: Cell::new(from),
            resets: Cell::new(Resets { from, count: 0 }),
            most_resets: limits.resets,
            too_many: Notify::new(),
        }
    }

    /// For how long no call has been running.
    fn idle(&self) -> Option<Duration> {
        (self.running.get() == 0).then(|| self.ended.get().elapsed())
    }

    /// Notes that the caller took a call back.
    fn note_reset(&self) {
        let mut resets = self.resets.get();
        if resets.from.elapsed() >= Duration::from_mins(1) {
            resets = Resets { from: Instant::now(), count: 0 };
        }
        resets.count += 1;
        self.resets.set(resets);
        if resets.count > self.most_resets {
            self.too_many.notify_one();
        }
    }
}

impl Running {
    fn start(calls: &Rc<Calls>) -> Self {
        calls.running.set(calls.running.get() + 1);
        Self(Rc::clone(calls))
    }

    fn end(self, outcome: Outcome) {
        match outcome {
            Outcome::CallerGone => self.0.note_reset(),
            Outcome::Answered { .. } | Outcome::BrokenOff => {}
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
        self.0.ended.set(Instant::now());
    }
}
