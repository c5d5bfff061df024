use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;

use crate::{
    Limits,
    buffers::Buffers,
    connection_timeout::ConnectionTimeout,
    stream::{Stream, ToVersion, poll_fill},
};

/// How much is read at once, in each direction; and where more comes than that, how much then.
const ROOM: usize = 16 * 1024;
const MUCH_ROOM: usize = 32 * 1024;

/// How long nothing may move.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idle {
    /// While both ends are open.
    open: Duration,
    /// While only the version may still send.
    caller_closed: Duration,
    /// While only the caller may.
    version_closed: Duration,
}

impl Idle {
    /// Of a connection that was upgraded.
    pub(crate) fn of_upgraded(limits: &Limits) -> Self {
        let half = limits.body_idle.min(limits.tunnel_idle);
        Self { open: limits.tunnel_idle, caller_closed: half, version_closed: half }
    }

    /// Of a connection of TCP: many callers say by their end that what they asked is whole, and wait for the answer.
    pub(crate) fn of_flow(limits: &Limits) -> Self {
        Self { caller_closed: limits.tunnel_idle, ..Self::of_upgraded(limits) }
    }
}

/// What passed, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TunnelSummary {
    /// Bytes to the version, and to the caller.
    pub up: u64,
    pub down: u64,
    pub end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Both ends said that nothing more comes, and everything passed.
    Closed,
    /// The caller's connection broke.
    CallerGone,
    /// The version's did.
    VersionGone,
    /// Nothing moved for too long.
    Idle,
}

/// Whose connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Sender,
    Receiver,
}

/// Passes bytes in both directions until both ends have closed, one fails, or nothing moved for too long, which is sooner where one
/// end has closed already. What came already goes first. `so_far`: bytes that passed, should this be dropped before it ends.
pub(crate) async fn run_counting<S: Stream>(
    (caller, from_caller): (&mut S, &mut BytesMut),
    (mut version, mut from_version): (ToVersion, BytesMut),
    (idle, buffers): (Idle, &Buffers),
    so_far: &std::cell::Cell<(u64, u64)>,
) -> TunnelSummary {
    let mut time_limit = ConnectionTimeout::new(idle.open);
    let (mut up, mut down) = (Way::new(), Way::new());
    let end = poll_fn(|cx| {
        let before = (up.passed, down.passed, up.state, down.state);
        let up_ended = up.poll((caller, from_caller), &mut version, buffers, cx);
        let down_ended = down.poll((&mut version, &mut from_version), caller, buffers, cx);
        if before != (up.passed, down.passed, up.state, down.state) {
            so_far.set((up.passed, down.passed));
            time_limit.begin(match (up.state, down.state) {
                (State::Open, State::Open) => idle.open,
                (_, State::Open) => idle.caller_closed,
                (_, State::Ending | State::Ended) => idle.version_closed,
            });
        }
        match (up_ended, down_ended) {
            (Poll::Ready(Err(Broken::Sender)), _) | (_, Poll::Ready(Err(Broken::Receiver))) => {
                Poll::Ready(End::CallerGone)
            }
            (Poll::Ready(Err(Broken::Receiver)), _) | (_, Poll::Ready(Err(Broken::Sender))) => {
                Poll::Ready(End::VersionGone)
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(End::Closed),
            (Poll::Pending, _) | (_, Poll::Pending) => time_limit.poll_over(cx).map(|()| End::Idle),
        }
    })
    .await;
    buffers.give_back(from_version);
    TunnelSummary { up: up.passed, down: down.passed, end }
}

/// The same, of a connection of which it isn't told what passed.
pub(crate) async fn run<S: Stream>(
    caller: (&mut S, &mut BytesMut),
    version: (ToVersion, BytesMut),
    how: (Idle, &Buffers),
) {
    run_counting(caller, version, how, &std::cell::Cell::default()).await;
}

/// One direction.
#[derive(Debug)]
struct Way {
    state: State,
    /// Bytes.
    passed: u64,
    /// How much is read next.
    room: usize,
    /// There is a buffer, be it one of which all is used.
    has_buffer: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The sender has closed; what came is still written.
    Ending,
    Ended,
}

impl Way {
    fn new() -> Self {
        Self { state: State::Open, passed: 0, room: ROOM, has_buffer: false }
    }

    fn poll<R: Stream, W: AsyncWrite + Unpin>(
        &mut self,
        (from, came): (&mut R, &mut BytesMut),
        to: &mut W,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Broken>> {
        loop {
            if !came.is_empty() {
                match ready!(Pin::new(&mut *to).poll_write(cx, came)) {
                    Ok(0) | Err(_) => return Poll::Ready(Err(Broken::Receiver)),
                    Ok(written) => {
                        came.advance(written);
                        self.passed += written as u64;
                    }
                }
                continue;
            }
            match self.state {
                State::Open => {
                    let read = ready!(self.poll_read(from, came, buffers, cx)).map_err(|_| Broken::Sender)?;
                    if read == 0 {
                        self.state = State::Ending;
                    }
                    // Where all of the room was needed there is more to come.
                    self.room = if read >= self.room { MUCH_ROOM } else { ROOM };
                }
                State::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx)).map_err(|_| Broken::Receiver)?;
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads what there is. A quiet connection holds no buffer.
    fn poll_read<R: Stream>(
        &mut self,
        from: &mut R,
        came: &mut BytesMut,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let input = from.poll_input(cx)?;
        if input.is_pending() {
            if came.capacity() > 0 || self.has_buffer {
                // What was used of it can be used again.
                came.reserve(ROOM);
                buffers.give_back(std::mem::take(came));
                self.has_buffer = false;
            }
            return Poll::Pending;
        }
        if !self.has_buffer {
            if came.capacity() == 0 {
                *came = buffers.take();
            }
            self.has_buffer = true;
        }
        poll_fill(from, came, self.room, cx)
    }
}
