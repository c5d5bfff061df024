//! One attempt to have a call carried out by a version, over a connection of either protocol.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use h2::Reason;
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    time::{Instant, timeout},
};
use traffic::Failure;

use super::{
    BodyPart,
    answer::AnswerTo,
    grpc,
    head::{self, Answer, Asking},
    link::Ride,
    read::{ReadFault, Reader},
    response_head::{Came, Coming, FailedAttempt},
    upload::{Progress, Upload, UploadEnd},
    write::Writer,
};
use crate::{
    Limits,
    connection_timeout::ConnectionTimeout,
    exchange::Read,
    head::{Framing, ResponseSummary},
    shadow::Watch,
    stream::ToVersion,
};

/// A call on its way.
pub(crate) struct CallInFlight<'c, R, W> {
    pub asking: Asking,
    pub upload: Upload<'c, R>,
    pub to: AnswerTo<W>,
    pub time_limit: ConnectionTimeout,
    pub limits: &'c Limits,
    /// Notes the answer, where the call is to be copied.
    pub watch: Option<Watch>,
}

/// A connection to a version.
pub(crate) enum Line {
    Plain(ToVersion),
    Ride(Ride),
}

/// How an attempt is to treat what comes back.
pub(crate) struct Rules<'r> {
    /// A status that speaks of the version is a failure, and not passed on.
    pub status_fails: bool,
    /// The caller's connection ends with this answer.
    pub close: &'r Cell<bool>,
    /// Fields that the answer gets.
    pub added: Vec<(HeaderName, HeaderValue)>,
}

/// How an attempt ended.
pub(crate) enum AttemptEnd {
    /// Nothing was passed on.
    Failed(FailedAttempt),
    /// The answer was passed on.
    Answered {
        status: u16,
        /// The same, or 500 where a call of gRPC failed with 200.
        counts_as: u16,
        read: Read,
        caller_again: bool,
        /// The version's connection, if it can be used again, and for how many seconds the version keeps it.
        again: Option<(ToVersion, Option<u32>)>,
    },
    /// The answer broke off, at the version's end.
    BrokenOff,
    /// The caller left, or takes nothing of its answer.
    CallerGone,
    /// The caller sends nothing of its body, and nothing of an answer was passed on.
    CallerSlow,
    /// The caller's body is none.
    BadBody(&'static str),
}

/// What came first, while the head of an answer was awaited.
enum First {
    Came(Result<Came, FailedAttempt>),
    Broken(ReadFault),
    CallerGone,
    CallerSlow,
    Late,
}

/// How passing an answer on ended.
enum Passed {
    Whole { failed: bool, read: Read },
    BrokenOff(Reason),
    CallerGone,
}

/// Sends a call over a connection and passes the answer on.
pub(crate) async fn attempt<R, W>(
    call: &mut CallInFlight<'_, R, W>,
    line: Line,
    rules: &Rules<'_>,
) -> AttemptEnd
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let has_body = !call.upload.is_empty();
    call.time_limit.begin(call.limits.first_byte);
    let (ride, opened) = match line {
        Line::Plain(stream) => (None, open_plain(&call.asking, stream, has_body, call.limits).await),
        Line::Ride(ride) => {
            let opened = open_stream(&call.asking, &ride, has_body);
            (Some(ride), opened)
        }
    };
    let (mut writer, coming) = match opened {
        Ok(opened) => opened,
        Err(missed) => return AttemptEnd::Failed(missed),
    };
    let (mut ended, back) = exchange(call, &mut writer, coming, rules).await;
    if let (AttemptEnd::Failed(FailedAttempt { failure: Failure::TimedOut, .. }), Some(ride)) =
        (&ended, &ride)
    {
        // Whether it is the call or the connection that is stuck can't be told.
        ride.retire();
    }
    if let AttemptEnd::Answered { again, .. } = &mut ended
        && let Some((Reader::Plain(plain), answered)) = back
        && let Some(half) = writer.into_io()
        && answered.keep_alive
        && plain.inbox.is_empty()
    {
        *again = Some((plain.io.unsplit(half), answered.keeps_idle));
    }
    ended
}

/// What a call is written to, and what its answer comes from.
type Opened = (Writer<WriteHalf<ToVersion>>, Coming);

async fn open_plain(
    asking: &Asking,
    stream: ToVersion,
    has_body: bool,
    limits: &Limits,
) -> Result<Opened, FailedAttempt> {
    let (head, framing) = asking.to_plain(has_body);
    let (io, mut half) = tokio::io::split(stream);
    match timeout(limits.first_byte, half.write_all(&head)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            return Err(FailedAttempt::of_connection(
                Failure::Died,
                format!("the connection ended: {error}"),
            ));
        }
        Err(_) => return Err(late(limits)),
    }
    let writer = match framing {
        Framing::None => Writer::Ended(Some(half)),
        Framing::Chunked => Writer::Plain { io: half, chunked: true },
        Framing::Length(_) | Framing::UntilClose => Writer::Plain { io: half, chunked: false },
    };
    let asked = head::asked(asking.is_head());
    Ok((writer, Coming::Plain { io: Some(io), came: BytesMut::new(), asked }))
}

fn open_stream(asking: &Asking, ride: &Ride, has_body: bool) -> Result<Opened, FailedAttempt> {
    let Some(request) = asking.to_stream() else {
        return Err(FailedAttempt::new(Failure::Nonsense, "the call can't be said in HTTP/2"));
    };
    match ride.send().send_request(request, !has_body) {
        Ok((coming, stream)) => {
            let writer = if has_body { Writer::Stream(stream) } else { Writer::Ended(None) };
            Ok((writer, Coming::Ride(coming)))
        }
        // The version never saw it: the connection had ended, or was ending.
        Err(error) if error.is_io() || error.is_go_away() => {
            ride.retire();
            Err(FailedAttempt::of_connection(Failure::Refused, format!("the connection ended: {error}")))
        }
        Err(error) => {
            let why = format!("the call can't be said in HTTP/2: {error}");
            Err(FailedAttempt::new(Failure::Nonsense, why))
        }
    }
}

/// What a version's connection leaves behind: the body's reader, and what its head said.
type Back = Option<(Reader<ReadHalf<ToVersion>>, ResponseSummary)>;

/// Awaits the answer while the body is sent, and passes it on.
async fn exchange<R, W>(
    call: &mut CallInFlight<'_, R, W>,
    writer: &mut Writer<WriteHalf<ToVersion>>,
    mut coming: Coming,
    rules: &Rules<'_>,
) -> (AttemptEnd, Back)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let CallInFlight { upload, to, time_limit, limits, watch, .. } = call;
    let progress = upload.progress();
    let speaks_http2 = matches!(coming, Coming::Ride(_));
    let mut up = Up { sending: Some(pin!(upload.send(writer, &progress))), is_whole: false };
    let (answer, mut reader, answered) =
        match await_answer(&mut up, &mut coming, to, &progress, (time_limit, limits)).await {
            Ok(came) => came,
            Err(ended) => return (ended, None),
        };
    let ended = reader.is_ended();
    let status = answer.status.as_u16();
    let failed = speaks_http2 && grpc::is_failure(&answer.fields);
    if rules.status_fails && progress.can_be_sent.get() && (status >= 500 || (failed && ended)) {
        let why = if failed { "it answered a call of gRPC with an error" } else { "its status speaks of it" };
        return (AttemptEnd::Failed(FailedAttempt::new(Failure::Status, format!("{why}: {status}"))), None);
    }
    progress.is_decided.set(true);
    let answer = with_fields(answer, &rules.added);
    let head = to.head(answer, ended, rules.close.get());
    let Ok(Ok((mut down, closes))) = timeout(limits.body_idle, head).await else {
        return (AttemptEnd::CallerGone, None);
    };
    let passed = {
        let passing = pin!(pass_on(&mut reader, &mut down, (&progress, watch), ended));
        pass_on_while_sending(&mut up, passing, &progress, (time_limit, limits)).await
    };
    match passed {
        Passed::Whole { failed: failed_behind, read } => {
            let counts_as = if failed || (speaks_http2 && failed_behind) { 500.max(status) } else { status };
            let back = answered.filter(|_| up.is_whole).map(|answered| (reader, answered));
            let caller_again = !closes && up.is_whole;
            (AttemptEnd::Answered { status, counts_as, read, caller_again, again: None }, back)
        }
        Passed::BrokenOff(reason) => {
            down.break_off(reason);
            (AttemptEnd::BrokenOff, None)
        }
        Passed::CallerGone => (AttemptEnd::CallerGone, None),
    }
}

/// The head of an answer, the reader of its body, and what stays of a head of HTTP/1.1.
type Begun = (Answer, Reader<ReadHalf<ToVersion>>, Option<ResponseSummary>);

/// Sends the call until the head of the answer is there. Heads with a status from 100 to 199 are passed on.
async fn await_answer<F, W>(
    up: &mut Up<'_, F>,
    coming: &mut Coming,
    to: &mut AnswerTo<W>,
    progress: &Progress,
    (time_limit, limits): (&mut ConnectionTimeout, &Limits),
) -> Result<Begun, AttemptEnd>
where
    F: Future<Output = UploadEnd>,
    W: AsyncWrite + Unpin,
{
    // Whom the call waits for: that one has its own time.
    let mut waits_for_caller = false;
    loop {
        let first = poll_fn(|cx| {
            if let Some(fault) = up.poll(cx) {
                return Poll::Ready(First::Broken(fault));
            }
            let waited = std::mem::replace(&mut waits_for_caller, up.waits_for_caller(progress));
            if progress.moved.take() || waited != waits_for_caller {
                time_limit.begin(if waits_for_caller { limits.body_idle } else { limits.first_byte });
            }
            if let Poll::Ready(came) = coming.poll_head(cx) {
                return Poll::Ready(First::Came(came));
            }
            if to.poll_gone(cx).is_ready() {
                return Poll::Ready(First::CallerGone);
            }
            let is_over = time_limit.poll_over(cx);
            is_over.map(|()| if waits_for_caller { First::CallerSlow } else { First::Late })
        });
        match first.await {
            First::Came(Ok(Came::Answer(answer, reader, answered))) => return Ok((answer, reader, answered)),
            First::Came(Ok(Came::Interim(answer))) => {
                let goes_on = answer.status == StatusCode::CONTINUE;
                let told = timeout(limits.body_idle, to.interim(answer)).await;
                told.map_err(io::Error::from).flatten().map_err(|_| AttemptEnd::CallerGone)?;
                if goes_on {
                    progress.note_continue();
                }
            }
            First::Came(Err(missed)) => return Err(AttemptEnd::Failed(missed)),
            First::Late => return Err(AttemptEnd::Failed(late(limits))),
            First::CallerSlow => return Err(AttemptEnd::CallerSlow),
            First::Broken(ReadFault::Malformed(why)) => return Err(AttemptEnd::BadBody(why)),
            First::CallerGone | First::Broken(ReadFault::Ended(_) | ReadFault::Reset(_)) => {
                return Err(AttemptEnd::CallerGone);
            }
        }
    }
}

/// Passes the body of the answer on. The rest of the call is sent meanwhile, as long as it can be; that it can't does not end the
/// answer.
async fn pass_on_while_sending<F: Future<Output = UploadEnd>>(
    up: &mut Up<'_, F>,
    mut passing: Pin<&mut impl Future<Output = Passed>>,
    progress: &Progress,
    (time_limit, limits): (&mut ConnectionTimeout, &Limits),
) -> Passed {
    time_limit.begin(limits.body_idle);
    poll_fn(|cx| {
        let _ = up.poll(cx);
        let passed = passing.as_mut().poll(cx);
        if progress.moved.take() {
            time_limit.begin(limits.body_idle);
        }
        match passed {
            Poll::Ready(passed) => Poll::Ready(passed),
            Poll::Pending => {
                let is_callers = progress.is_held.get() || up.waits_for_caller(progress);
                let passed = if is_callers { Passed::CallerGone } else { Passed::BrokenOff(Reason::CANCEL) };
                time_limit.poll_over(cx).map(|()| passed)
            }
        }
    })
    .await
}

fn with_fields(mut answer: Answer, added: &[(HeaderName, HeaderValue)]) -> Answer {
    for (name, value) in added {
        answer.fields.append(name, value.clone());
    }
    answer
}

/// The way up, while it lasts.
struct Up<'f, F> {
    sending: Option<Pin<&'f mut F>>,
    is_whole: bool,
}

impl<F: Future<Output = UploadEnd>> Up<'_, F> {
    /// Whether it goes on only if the caller sends something.
    fn waits_for_caller(&self, progress: &Progress) -> bool {
        self.sending.is_some() && progress.waits_for_caller()
    }

    /// Sends what can be sent; gives what is wrong with the caller's side.
    fn poll(&mut self, cx: &mut Context<'_>) -> Option<ReadFault> {
        let Poll::Ready(sent) = self.sending.as_mut()?.as_mut().poll(cx) else {
            return None;
        };
        self.sending = None;
        match sent {
            UploadEnd::Whole => {
                self.is_whole = true;
                None
            }
            UploadEnd::VersionClosed => None,
            UploadEnd::Broken(fault) => Some(fault),
        }
    }
}

/// Passes the body of an answer on, with its trailers.
async fn pass_on<W: AsyncWrite + Unpin>(
    reader: &mut Reader<ReadHalf<ToVersion>>,
    down: &mut Writer<W>,
    (progress, watch): (&Progress, &mut Option<Watch>),
    ended: bool,
) -> Passed {
    let mut failed = false;
    let mut is_over = ended;
    let mut read = Read { at: Instant::now(), held: Duration::ZERO };
    let mut held = Duration::ZERO;
    while !is_over {
        let piece = poll_fn(|cx| {
            if let Poll::Ready(piece) = reader.poll_piece(cx) {
                return Poll::Ready(Ok(piece));
            }
            down.poll_gone(cx).map(Err)
        });
        let piece = match piece.await {
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(fault))) => {
                tracing::debug!(%fault, "an answer broke off");
                return Passed::BrokenOff(match fault {
                    ReadFault::Reset(reason) => reason,
                    ReadFault::Ended(_) | ReadFault::Malformed(_) => Reason::INTERNAL_ERROR,
                });
            }
            Ok(None) => {
                read = Read { at: Instant::now(), held };
                break;
            }
            Err(()) => return Passed::CallerGone,
        };
        if let (Some(watch), BodyPart::Data(data)) = (&mut *watch, &piece) {
            watch.see_data(data);
        }
        progress.moved.set(true);
        read = Read { at: Instant::now(), held };
        is_over = match &piece {
            BodyPart::Trailers(fields) => {
                failed = grpc::is_failure(fields);
                true
            }
            BodyPart::Data(_) => reader.is_ended(),
        };
        progress.is_held.set(true);
        if down.write(piece, is_over).await.is_err() {
            return Passed::CallerGone;
        }
        progress.is_held.set(false);
        held += read.at.elapsed();
        progress.moved.set(true);
    }
    if !is_over && down.end().await.is_err() {
        return Passed::CallerGone;
    }
    Passed::Whole { failed, read }
}

fn late(limits: &Limits) -> FailedAttempt {
    let waited = limits.first_byte.as_secs();
    FailedAttempt::new(Failure::TimedOut, format!("there was no answer for {waited} seconds"))
}
