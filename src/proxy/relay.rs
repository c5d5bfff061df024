//! The way of an answer to the caller, once its head was seen.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::time::Instant;
use traffic::Failure;

use crate::{
    body::Body,
    call::{Call, Up},
    exchange::{AttemptEnd, Read, failed},
    head::{Framing, ResponseSummary},
    stream::{ROOM, Stream, ToVersion, poll_fill},
};

/// How much is read at once of a body that goes on and on.
const MUCH_ROOM: usize = 128 * 1024;

/// The way down, to the caller.
struct Down {
    /// The answer's head and the beginning of its body.
    out: Vec<u8>,
    written: usize,
    /// How many bytes at the beginning of what came belong to the body and were not written.
    ready: usize,
    body: Body,
    /// When the last byte of the answer was read.
    read_at: Option<Instant>,
    /// For how long nothing could be read, and since when it can't.
    held: Duration,
    held_since: Option<Instant>,
}

impl Down {
    /// What is there and was not written.
    fn unwritten<'d>(&'d self, came: &'d [u8]) -> Option<&'d [u8]> {
        let of_head = &self.out[self.written..];
        let bytes = if of_head.is_empty() { &came[..self.ready] } else { of_head };
        (!bytes.is_empty()).then_some(bytes)
    }

    /// The caller takes nothing, so that the rest of the answer can't be read.
    fn hold(&mut self) {
        if self.read_at.is_none() && self.held_since.is_none() {
            self.held_since = Some(Instant::now());
        }
    }

    /// Notes that so much of it was written.
    fn note(&mut self, written: usize, came: &mut BytesMut) {
        if let Some(since) = self.held_since.take() {
            self.held += since.elapsed();
        }
        if self.written < self.out.len() {
            self.written += written;
        } else {
            came.advance(written);
            self.ready -= written;
        }
    }
}

enum Passed {
    Whole,
    BrokenOff,
    CallerGone,
}

impl<S: Stream> Call<'_, S> {
    /// Passes the answer on, whose head is in `out`, and sends the rest of the call meanwhile.
    pub(crate) async fn pass_on(
        &mut self,
        mut stream: ToVersion,
        mut up: Up,
        mut came: BytesMut,
        mut out: Vec<u8>,
        (answered, close): (ResponseSummary, bool),
    ) -> AttemptEnd {
        let mut body = Body::new(answered.framing);
        let Ok(mut ready) = body.take(&came) else {
            return failed(Failure::Nonsense, "its answer's body has no end that can be found", false);
        };
        if let Some(watch) = &mut self.watch {
            watch.begin(answered.framing);
            watch.see(&came[..ready]);
        }
        // Head and a small body are one write.
        let small = ready.min(ROOM);
        out.extend_from_slice(&came[..small]);
        came.advance(small);
        ready -= small;
        let read_at = body.is_done().then(Instant::now);
        let mut down = Down { out, written: 0, ready, body, read_at, held: Duration::ZERO, held_since: None };
        up.wait_when_sent = self.limits.body_idle;
        self.time_limit.begin(self.limits.body_idle);
        match poll_fn(|cx| self.poll_pass_on(&mut stream, &mut up, &mut came, &mut down, cx)).await {
            Passed::Whole => {
                let can_again = self.is_sent(&up) && answered.keep_alive && came.is_empty();
                self.buffers.give_back(came);
                let is_taken = self.discard_rest();
                AttemptEnd::Answered {
                    answered,
                    again: can_again.then_some(stream),
                    caller_again: !close && is_taken,
                    read: Read { at: down.read_at.unwrap_or_else(Instant::now), held: down.held },
                }
            }
            Passed::BrokenOff => {
                if answered.framing == Framing::UntilClose {
                    // An end like any other would say that the answer is whole.
                    self.caller.break_off();
                }
                AttemptEnd::BrokenOff
            }
            Passed::CallerGone => AttemptEnd::CallerGone,
        }
    }

    fn poll_pass_on(
        &mut self,
        stream: &mut ToVersion,
        up: &mut Up,
        came: &mut BytesMut,
        down: &mut Down,
        cx: &mut Context<'_>,
    ) -> Poll<Passed> {
        // The rest of the call is sent as long as it can be; that it can't does not end the answer.
        if !self.is_sent(up)
            && let Poll::Ready(Err(_)) = self.poll_up(stream, up, cx)
        {
            up.broken = Some(io::ErrorKind::UnexpectedEof.into());
        }
        loop {
            let moved = if let Some(bytes) = down.unwritten(came) {
                match Pin::new(&mut *self.caller).poll_write(cx, bytes) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Ok(written @ 1..)) => {
                        down.note(written, came);
                        Poll::Ready(())
                    }
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Passed::CallerGone),
                }
            } else if down.body.is_done() {
                return Poll::Ready(Passed::Whole);
            } else {
                match poll_fill(stream, came, MUCH_ROOM, cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Ok(0)) if down.body.ends_with_connection() => {
                        return Poll::Ready(Passed::Whole);
                    }
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Passed::BrokenOff),
                    Poll::Ready(Ok(_)) => match down.body.take(came) {
                        Ok(ready) => {
                            if let Some(watch) = &mut self.watch {
                                watch.see(&came[..ready]);
                            }
                            down.ready = ready;
                            down.read_at = down.body.is_done().then(Instant::now);
                            Poll::Ready(())
                        }
                        Err(_) => return Poll::Ready(Passed::BrokenOff),
                    },
                }
            };
            if moved.is_pending() {
                return self.poll_stuck(up, down, came, cx);
            }
            self.time_limit.begin(self.limits.body_idle);
        }
    }

    /// Nothing can be done for now: ready once nothing will be done any more, and who is to blame.
    fn poll_stuck(&mut self, up: &Up, down: &mut Down, came: &[u8], cx: &mut Context<'_>) -> Poll<Passed> {
        if self.poll_gone(cx).is_ready() {
            return Poll::Ready(Passed::CallerGone);
        }
        let is_unwritten = down.unwritten(came).is_some();
        if is_unwritten {
            down.hold();
        }
        let is_callers = is_unwritten || self.waits_for_caller(up);
        self.time_limit
            .poll_over(cx)
            .map(|()| if is_callers { Passed::CallerGone } else { Passed::BrokenOff })
    }
}
