//! One attempt to have a call carried out by a version, until it is known what comes of it.
//!
//! The caller's body is sent and the answer awaited at the same time, since a version may answer before it has read everything.
//! Until the head of an answer is passed on, nothing is decided: the attempt may fail and the call go elsewhere, with what was
//! kept of its body.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::time::Instant;
use traffic::Failure;

use crate::{
    body::{Body, BodyFault},
    call::{Call, Stop, Up},
    head::{Added, Framing, HEAD_BYTES, Request, Response, ResponseSummary, ends_behind},
    stream::{ROOM, Stream, ToVersion, poll_fill},
};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    /// Nothing was passed on.
    Failed(Failure, Detail),
    /// The answer was passed on. The version's connection can be used again where it is given back.
    Answered { answered: ResponseSummary, again: Option<ToVersion>, caller_again: bool, read: Read },
    /// The answer broke off, at the version's end; the caller's connection has to end as well.
    BrokenOff,
    /// The version and the caller go on in another protocol.
    Upgraded { stream: ToVersion, came: BytesMut },
    /// The caller left, or took the answer too slowly.
    CallerGone,
    /// The caller sent too slowly, and got no answer yet.
    CallerSlow,
    /// The caller's body is none.
    BadBody(BodyFault),
}

/// When the answer was read from the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    /// When its last byte was.
    pub at: Instant,
    /// For how long nothing could be read before, because the caller took nothing.
    pub held: Duration,
}

/// What is said about a failed attempt.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    /// For the log: it may name addresses.
    pub text: String,
    /// Not one byte of an answer had come.
    pub nothing_came: bool,
    /// There was no place for it.
    pub is_full: bool,
    /// The connection, where it can be used again, and for how many seconds the version keeps it.
    pub again: Option<(ToVersion, Option<u32>)>,
}

impl Detail {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl AttemptEnd {
    /// The version's connection, if it can be used again, and for how many seconds the version keeps it.
    pub(crate) fn take_connection(&mut self) -> Option<(ToVersion, Option<u32>)> {
        match self {
            Self::Answered { answered, again, .. } => {
                again.take().map(|stream| (stream, answered.keeps_idle))
            }
            Self::Failed(_, detail) => detail.again.take(),
            Self::BrokenOff
            | Self::Upgraded { .. }
            | Self::CallerGone
            | Self::CallerSlow
            | Self::BadBody(_) => None,
        }
    }
}

/// How an attempt is to treat what comes back.
pub(crate) struct Rules<'r> {
    /// A status from 500 to 599 is a failure of the version, and not passed on.
    pub status_fails: bool,
    /// Fields that the answer gets.
    pub fields: [&'r [u8]; 2],
    /// Whether the caller's connection ends with the answer, as it stands once the head of that is there.
    pub close: &'r Cell<bool>,
}

/// What the bytes that came from a version are.
enum Seen {
    Nothing,
    Interim { status: u16, out: Vec<u8> },
    Upgrade(Vec<u8>),
    Answer { answered: ResponseSummary, out: Vec<u8>, close: bool },
    FailingStatus(ResponseSummary),
    Failure(Failure, &'static str),
}

/// What came first, while the head of an answer was awaited.
enum First {
    Came(io::Result<usize>),
    Stop(Stop),
    Late,
}

impl<S: Stream> Call<'_, S> {
    /// Sends the call over a connection and passes the answer on.
    pub(crate) async fn attempt(&mut self, mut stream: ToVersion, rules: &Rules<'_>) -> AttemptEnd {
        let mut up = match self.begin() {
            Ok(up) => up,
            Err(fault) => return AttemptEnd::BadBody(fault),
        };
        let mut came = BytesMut::new();
        let mut looked = 0;
        loop {
            // What can't become a head shows in its first bytes; from then on only its end is looked for.
            if looked == 0 || came.len() > HEAD_BYTES || ends_behind(&came, looked) {
                match self.look_at(&mut came, rules) {
                    Seen::Nothing => {}
                    Seen::Interim { status, out } => {
                        looked = 0;
                        match self.pass_interim(status, &out, &up).await {
                            Ok(()) => continue,
                            Err(_) => return AttemptEnd::CallerGone,
                        }
                    }
                    Seen::Upgrade(out) => {
                        let wait = self.limits.body_idle;
                        return match self.time_limit.write_all(self.caller, &out, wait).await {
                            Ok(()) => AttemptEnd::Upgraded { stream, came },
                            Err(_) => AttemptEnd::CallerGone,
                        };
                    }
                    Seen::Answer { answered, out, close } => {
                        return self.pass_on(stream, up, came, out, (answered, close)).await;
                    }
                    Seen::Failure(failure, text) => return failed(failure, text, false),
                    Seen::FailingStatus(answered) => {
                        return failed_by_status(self.is_sent(&up).then_some(stream), answered, &came);
                    }
                }
            }
            looked = came.len();
            match poll_fn(|cx| self.poll_first(&mut stream, &mut up, &mut came, cx)).await {
                First::Came(Ok(1..)) => {}
                First::Came(ended) => {
                    let why = match (up.broken.take(), ended) {
                        (Some(error), _) | (None, Err(error)) => format!("the connection ended: {error}"),
                        (None, Ok(_)) => "it closed the connection before its answer was there".to_owned(),
                    };
                    return failed(Failure::Died, why, came.is_empty());
                }
                First::Late => {
                    let why =
                        if self.is_sent(&up) { "no answer came" } else { "it took no more of the call" };
                    return failed(Failure::TimedOut, why, came.is_empty());
                }
                First::Stop(Stop::CallerGone) => return AttemptEnd::CallerGone,
                First::Stop(Stop::CallerSlow) => return AttemptEnd::CallerSlow,
                First::Stop(Stop::BadBody(fault)) => return AttemptEnd::BadBody(fault),
            }
        }
    }

    /// Passes an answer on that comes before the answer. That the caller is to go on it is told once, whoever says it how often.
    async fn pass_interim(&mut self, status: u16, out: &[u8], up: &Up) -> io::Result<()> {
        if self.asked.is_http10 || status == 100 && !self.note_continue(up) {
            return Ok(());
        }
        // Such answers don't prolong the wait for the answer.
        let deadline = self.time_limit.deadline();
        self.time_limit.write_all(self.caller, out, self.limits.body_idle).await?;
        self.time_limit.begin_until(deadline);
        Ok(())
    }

    /// Reads the head of an answer out of what came, and writes it for the caller.
    fn look_at(&self, came: &mut BytesMut, rules: &Rules<'_>) -> Seen {
        if came.is_empty() {
            return Seen::Nothing;
        }
        let mut room = Request::room();
        let response = match Response::read(came, &mut room, &self.asked) {
            Ok(Some(response)) => response,
            Ok(None) => return Seen::Nothing,
            Err(fault) => return Seen::Failure(Failure::Nonsense, fault.0),
        };
        let answered = response.answered;
        // Nobody knows how much of a call's body a version will still take that answers before the end of it.
        let close = rules.close.get()
            || answered.framing == Framing::UntilClose
            || !self.asked.keep_alive
            || !self.is_body_taken();
        let mut out = Vec::new();
        response.write(&self.asked, &Added { close, fields: rules.fields }, &mut out);
        let seen = match answered.status {
            101 if self.asked.upgrade => Seen::Upgrade(out),
            101 => return Seen::Failure(Failure::Nonsense, "it changed the protocol without being asked"),
            100..200 => Seen::Interim { status: answered.status, out },
            500.. if rules.status_fails && self.can_be_sent_again() => Seen::FailingStatus(answered),
            _ => Seen::Answer { answered, out, close },
        };
        came.advance(answered.head_len);
        seen
    }

    /// Awaits more of the answer's head, and sends meanwhile.
    fn poll_first(
        &mut self,
        stream: &mut ToVersion,
        up: &mut Up,
        came: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<First> {
        match self.poll_up(stream, up, cx) {
            Poll::Ready(Err(stop)) => return Poll::Ready(First::Stop(stop)),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        if let Poll::Ready(read) = self.poll_answer(stream, came, cx) {
            return Poll::Ready(First::Came(read));
        }
        if self.poll_gone(cx).is_ready() {
            return Poll::Ready(First::Stop(Stop::CallerGone));
        }
        ready!(self.time_limit.poll_over(cx));
        Poll::Ready(if self.waits_for_caller(up) { First::Stop(Stop::CallerSlow) } else { First::Late })
    }

    /// Reads more of a head. Until something of it is there, no buffer is held for it.
    fn poll_answer(
        &self,
        stream: &mut ToVersion,
        came: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if came.is_empty() {
            ready!(stream.poll_input(cx))?;
            self.buffers.give_back(std::mem::replace(came, self.buffers.take()));
        }
        poll_fill(stream, came, ROOM, cx)
    }
}

pub(crate) fn failed(failure: Failure, text: impl Into<String>, nothing_came: bool) -> AttemptEnd {
    AttemptEnd::Failed(failure, Detail { nothing_came, ..Detail::new(text) })
}

/// The version failed the call by its status. Its connection can be used again where it took the whole call, and the whole answer is
/// there already.
fn failed_by_status(stream: Option<ToVersion>, answered: ResponseSummary, came: &[u8]) -> AttemptEnd {
    let mut body = Body::new(answered.framing);
    let is_whole = body.take(came) == Ok(came.len()) && body.is_done() && answered.keep_alive;
    let detail = Detail {
        again: stream.filter(|_| is_whole).map(|stream| (stream, answered.keeps_idle)),
        ..Detail::new(format!("it answered {}", answered.status))
    };
    AttemptEnd::Failed(Failure::Status, detail)
}
