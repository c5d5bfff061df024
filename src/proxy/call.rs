//! A call on its way: the caller's side of it, what came of its body, and what was kept of that for a repeat.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;

use crate::{
    Limits,
    body::{Body, BodyFault},
    buffers::Buffers,
    connection_timeout::ConnectionTimeout,
    head::{self, RequestSummary},
    shadow::Watch,
    stream::{ROOM, Stream, ToVersion, poll_fill},
    worker::Worker,
};

/// How much is read at once of a body that goes on and on.
const MUCH_ROOM: usize = 64 * 1024;

pub(crate) struct Call<'c, S> {
    pub caller: &'c mut S,
    /// What came from the caller and was not used yet, without the head.
    pub inbox: &'c mut BytesMut,
    pub time_limit: &'c mut ConnectionTimeout,
    pub limits: &'c Limits,
    pub buffers: &'c Buffers,
    pub asked: RequestSummary,
    /// Notes the answer, where the call is to be copied.
    pub watch: Option<Watch>,
    /// The head as the versions get it.
    head: &'c [u8],
    /// The path below which the version is that gets it; empty where there is none.
    below: String,
    body: Body,
    /// How many bytes at the beginning of the inbox belong to the body and were not written.
    ready: usize,
    /// The body as far as it came, while it can still be sent again.
    kept: Option<Kept<'c>>,
    has_begun: bool,
    /// The caller sends its body once it was told to go on, which nobody did yet.
    awaits_continue: bool,
    /// The caller sends nothing more. It may still read.
    has_closed: bool,
}

/// The way up, to the version: what is still to be written.
pub(crate) struct Up {
    pending: Vec<u8>,
    written: usize,
    /// Why the version takes no more. It may have answered all the same.
    pub broken: Option<io::Error>,
    /// How long the version is waited for once it has the whole call.
    pub wait_when_sent: Duration,
}

/// What kept an attempt from going on.
pub(crate) enum Stop {
    CallerGone,
    CallerSlow,
    BadBody(BodyFault),
}

impl<'c, S: Stream> Call<'c, S> {
    /// `is_kept`: its body is kept, as far as there is room, since the call may be repeated.
    pub(crate) fn new(
        (caller, inbox, time_limit): (&'c mut S, &'c mut BytesMut, &'c mut ConnectionTimeout),
        worker: &'c Worker,
        (asked, head): (RequestSummary, &'c [u8]),
        is_kept: bool,
    ) -> Self {
        Self {
            caller,
            inbox,
            time_limit,
            limits: worker.limits(),
            buffers: worker.buffers(),
            asked,
            watch: None,
            head,
            below: String::new(),
            body: Body::new(asked.framing),
            ready: 0,
            kept: is_kept.then(|| Kept { bytes: Vec::new(), of_thread: worker.kept() }),
            has_begun: false,
            awaits_continue: asked.awaits_continue,
            has_closed: false,
        }
    }

    /// Says below which path the version is that the call goes to now.
    pub(crate) fn go_below(&mut self, path: &str) {
        self.below.clear();
        self.below.push_str(path);
    }

    /// Whether the call can be sent once more from its beginning.
    pub(crate) fn can_be_sent_again(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether anything of it was sent to a version.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the whole body was taken from the caller.
    pub(crate) fn is_body_taken(&self) -> bool {
        self.body.is_done()
    }

    /// Whether all of the call was written.
    pub(crate) fn is_sent(&self, up: &Up) -> bool {
        up.broken.is_none() && self.body.is_done() && self.ready == 0 && up.written == up.pending.len()
    }

    /// Whether it is the caller who keeps the call from going on.
    pub(crate) fn waits_for_caller(&self, up: &Up) -> bool {
        up.broken.is_none()
            && up.written == up.pending.len()
            && self.ready == 0
            && !self.body.is_done()
            && !self.awaits_continue
    }

    /// Notes that the caller is told to go on; whether it still waits for that.
    pub(crate) fn note_continue(&mut self, up: &Up) -> bool {
        let awaited = std::mem::take(&mut self.awaits_continue);
        self.wait_anew(up);
        awaited
    }

    /// Throws away what there is of the rest of the body; whether that was all of it, so that the next call can follow.
    pub(crate) fn discard_rest(&mut self) -> bool {
        loop {
            self.inbox.advance(std::mem::take(&mut self.ready));
            if self.body.is_done() {
                return true;
            }
            match self.body.take(self.inbox) {
                Ok(0) | Err(_) => return false,
                Ok(more) => self.ready = more,
            }
        }
    }

    /// The head, and what came of the body.
    pub(crate) fn begin(&mut self) -> Result<Up, BodyFault> {
        self.has_begun = true;
        let mut pending =
            if self.below.is_empty() { self.head.to_vec() } else { head::below(self.head, &self.below) };
        if let Some(kept) = &self.kept {
            pending.extend_from_slice(&kept.bytes);
            self.inbox.advance(std::mem::take(&mut self.ready));
        }
        self.take_body()?;
        // Head and a small body are one write.
        let small = self.ready.min(ROOM);
        pending.extend_from_slice(&self.inbox[..small]);
        self.inbox.advance(small);
        self.ready -= small;
        if self.inbox.is_empty() {
            // However long the version takes, no buffer is held for the caller meanwhile.
            self.buffers.give_back(std::mem::take(self.inbox));
        }
        let up = Up { pending, written: 0, broken: None, wait_when_sent: self.limits.first_byte };
        let is_at_version = self.body.is_done() || self.awaits_continue;
        self.time_limit.begin(if is_at_version { up.wait_when_sent } else { self.limits.body_idle });
        Ok(up)
    }

    /// Finds how much of what came belongs to the body.
    fn take_body(&mut self) -> Result<(), BodyFault> {
        if self.body.is_done() || self.ready > 0 {
            return Ok(());
        }
        self.ready = self.body.take(self.inbox)?;
        if self.ready > 0 {
            self.awaits_continue = false;
            let came = &self.inbox[..self.ready];
            self.kept = self.kept.take().and_then(|kept| kept.with(came, self.limits));
        }
        Ok(())
    }

    /// Something of the call moved.
    fn wait_anew(&mut self, up: &Up) {
        let is_at_version = self.awaits_continue || self.is_sent(up);
        self.time_limit.begin(if is_at_version { up.wait_when_sent } else { self.limits.body_idle });
    }

    /// Writes what there is of the call; ready once all of it is, or once the version takes no more, which isn't the end yet: it may
    /// have answered.
    pub(crate) fn poll_up(
        &mut self,
        stream: &mut ToVersion,
        up: &mut Up,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Stop>> {
        loop {
            if up.broken.is_some() {
                return Poll::Ready(Ok(()));
            }
            if up.written < up.pending.len() {
                match ready!(Pin::new(&mut *stream).poll_write(cx, &up.pending[up.written..])) {
                    Ok(0) => up.broken = Some(io::ErrorKind::WriteZero.into()),
                    Ok(written) => up.written += written,
                    Err(error) => up.broken = Some(error),
                }
            } else if self.ready > 0 {
                match ready!(Pin::new(&mut *stream).poll_write(cx, &self.inbox[..self.ready])) {
                    Ok(0) => up.broken = Some(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        self.inbox.advance(written);
                        self.ready -= written;
                        self.wait_anew(up);
                    }
                    Err(error) => up.broken = Some(error),
                }
            } else if self.body.is_done() {
                return Poll::Ready(Ok(()));
            } else {
                match ready!(poll_fill(&mut *self.caller, self.inbox, MUCH_ROOM, cx)) {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => return Poll::Ready(Err(Stop::CallerGone)),
                }
                if let Err(fault) = self.take_body() {
                    return Poll::Ready(Err(Stop::BadBody(fault)));
                }
                self.wait_anew(up);
            }
        }
    }

    /// Ready once the caller of a call that was sent is known to be gone. That it sends nothing more doesn't mean that it doesn't read.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_closed || !self.body.is_done() || self.ready > 0 {
            return Poll::Pending;
        }
        // A further call may come before this one is answered; no more than its beginning is taken until then.
        while self.inbox.len() < ROOM {
            let _ = ready!(self.caller.poll_input(cx));
            if self.inbox.is_empty() {
                self.buffers.give_back(std::mem::replace(self.inbox, self.buffers.take()));
            }
            match ready!(poll_fill(&mut *self.caller, self.inbox, ROOM, cx)) {
                Ok(1..) => {}
                Ok(0) => {
                    self.has_closed = true;
                    return Poll::Pending;
                }
                Err(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }
}

/// A body, as far as it came. What all calls of a thread keep together has a limit.
#[derive(Debug)]
struct Kept<'c> {
    bytes: Vec<u8>,
    of_thread: &'c Cell<usize>,
}

impl Kept<'_> {
    /// With what came; nothing where that is more than can be kept.
    fn with(mut self, came: &[u8], limits: &Limits) -> Option<Self> {
        let of_thread = self.of_thread.get() + came.len();
        if self.bytes.len() + came.len() > limits.kept_body || of_thread > limits.kept_bodies {
            return None;
        }
        self.of_thread.set(of_thread);
        self.bytes.extend_from_slice(came);
        Some(self)
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.of_thread.set(self.of_thread.get() - self.bytes.len());
    }
}
