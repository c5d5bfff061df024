//! One attempt to have a call carried out by a version.
//!
//! The caller's body is sent and the answer awaited at the same time, since a version may answer before it has read everything.
//! Until the head of an answer is passed on, nothing is decided: the attempt may fail and the call go elsewhere, with what was
//! kept of its body.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    time::Instant,
};
use traffic::Failure;

use crate::{
    Limits,
    body::{Body, BodyFault},
    head::{Added, Answered, Asked, Framing, Request, Response},
    patience::Patience,
    stream::{Stream, ToVersion, poll_fill},
};

/// How much is read at once.
const ROOM: usize = 16 * 1024;
/// How much is read at once of a body that goes on and on.
const MUCH_ROOM: usize = 128 * 1024;

/// A call on its way: the caller's side, what came of its body, and what was kept of that for a repeat.
pub(crate) struct Call<'c, S> {
    pub caller: &'c mut S,
    /// What came from the caller and was not used yet, without the head.
    pub inbox: &'c mut BytesMut,
    pub patience: &'c mut Patience,
    pub limits: &'c Limits,
    pub asked: Asked,
    /// The head as the versions get it.
    pub head: &'c [u8],
    body: Body,
    /// How many bytes at the beginning of the inbox belong to the body and were not written.
    ready: usize,
    /// The body as far as it came, while it can still be sent again.
    kept: Option<Vec<u8>>,
    has_begun: bool,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Nothing was passed on.
    Failed(Failure, Detail),
    /// The answer was passed on. The version's connection can be used again where it is given back.
    Answered { answered: Answered, again: Option<ToVersion>, caller_again: bool, read: Read },
    /// The answer broke off, at the version's end; the caller's connection has to end as well.
    BrokenOff,
    /// The version and the caller go on in another protocol.
    Upgraded { stream: ToVersion, came: BytesMut },
    /// The caller left, or was too slow.
    CallerGone,
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

impl Ended {
    /// The version's connection, if it can be used again, and for how many seconds the version keeps it.
    pub(crate) fn take_connection(&mut self) -> Option<(ToVersion, Option<u32>)> {
        match self {
            Self::Answered { answered, again, .. } => {
                again.take().map(|stream| (stream, answered.keeps_idle))
            }
            Self::Failed(_, detail) => detail.again.take(),
            Self::BrokenOff | Self::Upgraded { .. } | Self::CallerGone | Self::BadBody(_) => None,
        }
    }
}

/// How an attempt is to treat what comes back.
pub(crate) struct Rules<'r> {
    /// A status from 500 to 599 is a failure of the version, and not passed on.
    pub status_fails: bool,
    /// Fields that the answer gets.
    pub fields: &'r [u8],
    /// Whether the caller's connection ends with the answer, as it stands once the head of that is there.
    pub close: &'r Cell<bool>,
}

/// The way up, to the version: what is still to be written.
struct Up {
    pending: Vec<u8>,
    written: usize,
    broken: Option<io::Error>,
}

/// What the bytes that came from a version are.
enum Seen {
    Nothing,
    Interim(Vec<u8>),
    Upgrade(Vec<u8>),
    Answer { answered: Answered, out: Vec<u8>, close: bool },
    FailingStatus(Answered),
    Failure(Failure, &'static str),
}

/// What kept an attempt from going on.
enum Stop {
    CallerGone,
    BadBody(BodyFault),
}

/// What came first, while the head of an answer was awaited.
enum First {
    Came(io::Result<usize>),
    Stop(Stop),
    Late,
}

impl<'c, S: Stream> Call<'c, S> {
    pub(crate) fn new(
        (caller, inbox, patience): (&'c mut S, &'c mut BytesMut, &'c mut Patience),
        limits: &'c Limits,
        (asked, head): (Asked, &'c [u8]),
        may_be_repeated: bool,
    ) -> Self {
        let body = Body::new(asked.framing);
        Self {
            caller,
            inbox,
            patience,
            limits,
            asked,
            head,
            body,
            ready: 0,
            kept: may_be_repeated.then(Vec::new),
            has_begun: false,
        }
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

    /// Sends the call over a connection and passes the answer on.
    pub(crate) async fn attempt(&mut self, mut stream: ToVersion, rules: &Rules<'_>) -> Ended {
        let mut up = match self.begin() {
            Ok(up) => up,
            Err(fault) => return Ended::BadBody(fault),
        };
        let mut came = BytesMut::new();
        self.patience.begin(self.limits.first_byte);
        loop {
            match self.look_at(&mut came, rules) {
                Seen::Nothing => {}
                Seen::Interim(out) if self.asked.is_http10 => drop(out),
                Seen::Interim(out) => {
                    if self.caller.write_all(&out).await.is_err() {
                        return Ended::CallerGone;
                    }
                    continue;
                }
                Seen::Upgrade(out) => {
                    return match self.caller.write_all(&out).await {
                        Ok(()) => Ended::Upgraded { stream, came },
                        Err(_) => Ended::CallerGone,
                    };
                }
                Seen::Answer { answered, out, close } => {
                    return self.pass_on(stream, up, came, out, (answered, close)).await;
                }
                Seen::Failure(failure, text) => return failed(failure, text, false),
                Seen::FailingStatus(answered) => return failed_by_status(stream, answered, &came),
            }
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
                    let waited = self.limits.first_byte.as_secs();
                    let why = format!("there was no answer for {waited} seconds");
                    return failed(Failure::TimedOut, why, came.is_empty());
                }
                First::Stop(stop) => return stop.into(),
            }
        }
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
        let close = rules.close.get() || answered.framing == Framing::UntilClose || !self.asked.keep_alive;
        let mut out = Vec::new();
        response.write(&self.asked, &Added { close, fields: rules.fields }, &mut out);
        let seen = match answered.status {
            101 if self.asked.upgrade => Seen::Upgrade(out),
            101 => return Seen::Failure(Failure::Nonsense, "it changed the protocol without being asked"),
            100..200 => Seen::Interim(out),
            500.. if rules.status_fails && self.can_be_sent_again() => Seen::FailingStatus(answered),
            _ => Seen::Answer { answered, out, close },
        };
        came.advance(answered.head_len);
        seen
    }

    /// The head, and what came of the body.
    fn begin(&mut self) -> Result<Up, BodyFault> {
        self.has_begun = true;
        let mut pending = self.head.to_vec();
        if let Some(kept) = &self.kept {
            pending.extend_from_slice(kept);
            self.inbox.advance(std::mem::take(&mut self.ready));
        }
        self.take_body()?;
        // Head and a small body are one write.
        let small = self.ready.min(ROOM);
        pending.extend_from_slice(&self.inbox[..small]);
        self.inbox.advance(small);
        self.ready -= small;
        Ok(Up { pending, written: 0, broken: None })
    }

    /// Finds how much of what came belongs to the body.
    fn take_body(&mut self) -> Result<(), BodyFault> {
        if self.body.is_done() || self.ready > 0 {
            return Ok(());
        }
        self.ready = self.body.take(self.inbox)?;
        let most = self.limits.kept_body;
        self.kept = self.kept.take().filter(|kept| kept.len() + self.ready <= most);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(&self.inbox[..self.ready]);
        }
        Ok(())
    }

    /// Whether all of the call was written.
    fn is_sent(&self, up: &Up) -> bool {
        self.body.is_done() && self.ready == 0 && up.written == up.pending.len()
    }

    /// Awaits more of the answer's head, and sends meanwhile.
    fn poll_first(
        &mut self,
        stream: &mut ToVersion,
        up: &mut Up,
        came: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<First> {
        if up.broken.is_none() {
            match self.poll_up(stream, up, cx) {
                Poll::Ready(Err(stop)) => return Poll::Ready(First::Stop(stop)),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if let Poll::Ready(read) = poll_fill(stream, came, ROOM, cx) {
            return Poll::Ready(First::Came(read));
        }
        self.patience.poll_over(cx).map(|()| First::Late)
    }

    /// Writes what there is of the call; ready once all of it is, or once the version takes no more, which isn't the end yet: it may
    /// have answered.
    fn poll_up(
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
                        self.patience.begin(self.limits.first_byte);
                    }
                    Err(error) => up.broken = Some(error),
                }
            } else if self.body.is_done() {
                return Poll::Ready(Ok(()));
            } else {
                match ready!(poll_fill(&mut *self.caller, self.inbox, MUCH_ROOM / 2, cx)) {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => return Poll::Ready(Err(Stop::CallerGone)),
                }
                if let Err(fault) = self.take_body() {
                    return Poll::Ready(Err(Stop::BadBody(fault)));
                }
            }
        }
    }

    /// Passes the answer on, whose head is in `out`, and sends the rest of the call meanwhile.
    async fn pass_on(
        &mut self,
        mut stream: ToVersion,
        mut up: Up,
        mut came: BytesMut,
        mut out: Vec<u8>,
        (answered, close): (Answered, bool),
    ) -> Ended {
        let mut body = Body::new(answered.framing);
        let Ok(mut ready) = body.take(&came) else {
            return failed(Failure::Nonsense, "its answer's body has no end that can be found", false);
        };
        // Head and a small body are one write.
        let small = ready.min(ROOM);
        out.extend_from_slice(&came[..small]);
        came.advance(small);
        ready -= small;
        let read_at = body.is_done().then(Instant::now);
        let mut down = Down { out, written: 0, ready, body, read_at, held: Duration::ZERO, held_since: None };
        self.patience.begin(self.limits.body_idle);
        match poll_fn(|cx| self.poll_pass_on(&mut stream, &mut up, &mut came, &mut down, cx)).await {
            Passed::Whole => {
                let is_call_sent = up.broken.is_none() && self.is_sent(&up);
                let again = (is_call_sent && answered.keep_alive && came.is_empty()).then_some(stream);
                let read = Read { at: down.read_at.unwrap_or_else(Instant::now), held: down.held };
                Ended::Answered { answered, again, caller_again: !close && is_call_sent, read }
            }
            Passed::BrokenOff => Ended::BrokenOff,
            Passed::CallerGone => Ended::CallerGone,
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
        if up.broken.is_none()
            && !self.is_sent(up)
            && let Poll::Ready(Err(Stop::CallerGone | Stop::BadBody(_))) = self.poll_up(stream, up, cx)
        {
            up.broken = Some(io::ErrorKind::UnexpectedEof.into());
        }
        loop {
            let written = if down.written < down.out.len() {
                let written = Pin::new(&mut *self.caller).poll_write(cx, &down.out[down.written..]);
                written.map_ok(|written| down.written += written)
            } else if down.ready > 0 {
                Pin::new(&mut *self.caller).poll_write(cx, &came[..down.ready]).map_ok(|written| {
                    came.advance(written);
                    down.ready -= written;
                })
            } else if down.body.is_done() {
                return Poll::Ready(Passed::Whole);
            } else {
                match poll_fill(stream, came, MUCH_ROOM, cx) {
                    Poll::Pending => return self.patience.poll_over(cx).map(|()| Passed::BrokenOff),
                    Poll::Ready(Ok(0)) if down.body.ends_with_connection() => {
                        return Poll::Ready(Passed::Whole);
                    }
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Passed::BrokenOff),
                    Poll::Ready(Ok(_)) => match down.body.take(came) {
                        Ok(ready) => {
                            down.ready = ready;
                            down.read_at = down.body.is_done().then(Instant::now);
                            Poll::Ready(Ok(()))
                        }
                        Err(_) => return Poll::Ready(Passed::BrokenOff),
                    },
                }
            };
            match written {
                Poll::Ready(Ok(())) => {
                    down.go_on();
                    self.patience.begin(self.limits.body_idle);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Passed::CallerGone),
                // It is the caller who takes nothing.
                Poll::Pending => {
                    down.hold();
                    return self.patience.poll_over(cx).map(|()| Passed::CallerGone);
                }
            }
        }
    }
}

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
    /// The caller takes nothing, so that the rest of the answer can't be read.
    fn hold(&mut self) {
        if self.read_at.is_none() && self.held_since.is_none() {
            self.held_since = Some(Instant::now());
        }
    }

    /// The caller takes something again.
    fn go_on(&mut self) {
        if let Some(since) = self.held_since.take() {
            self.held += since.elapsed();
        }
    }
}

enum Passed {
    Whole,
    BrokenOff,
    CallerGone,
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::CallerGone => Self::CallerGone,
            Stop::BadBody(fault) => Self::BadBody(fault),
        }
    }
}

fn failed(failure: Failure, text: impl Into<String>, nothing_came: bool) -> Ended {
    Ended::Failed(failure, Detail { nothing_came, ..Detail::new(text) })
}

/// The version failed the call by its status. Its connection can be used again where the whole answer is there already.
fn failed_by_status(stream: ToVersion, answered: Answered, came: &[u8]) -> Ended {
    let mut body = Body::new(answered.framing);
    let is_whole = body.take(came) == Ok(came.len()) && body.is_done();
    let detail = Detail {
        again: (is_whole && answered.keep_alive).then_some((stream, answered.keeps_idle)),
        ..Detail::new(format!("it answered {}", answered.status))
    };
    Ended::Failed(Failure::Status, detail)
}
