//! The head of an answer, as it comes from a version of either protocol.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use h2::{Reason, client::ResponseFuture};
use tokio::io::ReadHalf;
use traffic::Failure;

use super::{head::Answer, read::Reader};
use crate::{
    head::{Request, RequestSummary, Response, ResponseSummary},
    stream::{ToVersion, poll_fill},
};

/// How much is read at once of a head.
const ROOM: usize = 16 * 1024;

/// What is said about a failed attempt.
pub(crate) struct FailedAttempt {
    pub failure: Failure,
    pub text: String,
    /// The connection is the trouble, and another may do.
    pub is_of_connection: bool,
    /// There was no place for it.
    pub is_full: bool,
}

/// The head of an answer, as it comes.
pub(crate) enum Coming {
    Plain { io: Option<ReadHalf<ToVersion>>, came: BytesMut, asked: RequestSummary },
    Ride(ResponseFuture),
}

/// A head that came.
pub(crate) enum Came {
    Interim(Answer),
    Answer(Answer, Reader<ReadHalf<ToVersion>>, Option<ResponseSummary>),
}

impl FailedAttempt {
    pub(crate) fn new(failure: Failure, text: impl Into<String>) -> Self {
        Self { failure, text: text.into(), is_of_connection: false, is_full: false }
    }

    pub(crate) fn of_connection(failure: Failure, text: impl Into<String>) -> Self {
        Self { is_of_connection: true, ..Self::new(failure, text) }
    }
}

impl Coming {
    /// The next head.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Came, FailedAttempt>> {
        match self {
            Self::Plain { io, came, asked } => poll_plain(io, came, asked, cx),
            Self::Ride(coming) => poll_stream(coming, cx),
        }
    }
}

fn poll_plain(
    io: &mut Option<ReadHalf<ToVersion>>,
    came: &mut BytesMut,
    asked: &RequestSummary,
    cx: &mut Context<'_>,
) -> Poll<Result<Came, FailedAttempt>> {
    loop {
        let mut room = Request::room();
        let response = if came.is_empty() { Ok(None) } else { Response::read(came, &mut room, asked) };
        match response {
            Err(fault) => return Poll::Ready(Err(FailedAttempt::new(Failure::Nonsense, fault.0))),
            Ok(Some(response)) => {
                let answered = response.answered;
                let Some(answer) = Answer::of_plain(&response) else {
                    return Poll::Ready(Err(FailedAttempt::new(Failure::Nonsense, "fields that aren't any")));
                };
                let _head = came.split_to(answered.head_len);
                return Poll::Ready(match answered.status {
                    101 => {
                        let why = "it changed the protocol without being asked";
                        Err(FailedAttempt::new(Failure::Nonsense, why))
                    }
                    100..200 => Ok(Came::Interim(answer)),
                    _ => match io.take() {
                        Some(io) => {
                            let reader = Reader::plain(io, std::mem::take(came), answered.framing);
                            Ok(Came::Answer(answer, reader, Some(answered)))
                        }
                        None => Err(FailedAttempt::new(Failure::Nonsense, "a second answer")),
                    },
                });
            }
            Ok(None) => {}
        }
        let Some(io) = io else {
            return Poll::Ready(Err(FailedAttempt::new(Failure::Nonsense, "a second answer")));
        };
        let nothing_came = came.is_empty();
        let why = match ready!(poll_fill(io, came, ROOM, cx)) {
            Ok(1..) => continue,
            Ok(0) => "it closed the connection before its answer was there".to_owned(),
            Err(error) => format!("the connection ended: {error}"),
        };
        let missed = FailedAttempt::new(Failure::Died, why);
        return Poll::Ready(Err(FailedAttempt { is_of_connection: nothing_came, ..missed }));
    }
}

fn poll_stream(coming: &mut ResponseFuture, cx: &mut Context<'_>) -> Poll<Result<Came, FailedAttempt>> {
    match coming.poll_informational(cx) {
        Poll::Ready(Some(Ok(interim))) => {
            let (head, ()) = interim.into_parts();
            let interim = Answer { status: head.status, fields: head.headers };
            return Poll::Ready(Ok(Came::Interim(interim)));
        }
        Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(missed_by(&error))),
        Poll::Ready(None) | Poll::Pending => {}
    }
    let response = match ready!(Pin::new(coming).poll(cx)) {
        Ok(response) => response,
        Err(error) => return Poll::Ready(Err(missed_by(&error))),
    };
    let (head, body) = response.into_parts();
    Poll::Ready(match Answer::of_stream(head) {
        Ok(answer) => Ok(Came::Answer(answer, Reader::stream(body), None)),
        Err(why) => Err(FailedAttempt::new(Failure::Nonsense, why)),
    })
}

/// What an error of HTTP/2 means for a call whose answer had not begun. A version that goes away names the last call that it may
/// have carried out: only calls behind that one end with its farewell.
fn missed_by(error: &h2::Error) -> FailedAttempt {
    match error.reason() {
        _ if error.is_io() => {
            FailedAttempt::of_connection(Failure::Died, format!("the connection ended: {error}"))
        }
        Some(_) if error.is_go_away() && error.is_remote() => {
            FailedAttempt::of_connection(Failure::Refused, "it was going away")
        }
        Some(Reason::REFUSED_STREAM) if error.is_remote() => {
            FailedAttempt::new(Failure::Refused, "it refused the call")
        }
        Some(Reason::HTTP_1_1_REQUIRED) if error.is_remote() => {
            FailedAttempt::new(Failure::Nonsense, "it wants HTTP/1.1")
        }
        Some(reason) if error.is_remote() => {
            FailedAttempt::new(Failure::Died, format!("it broke the call off: {reason}"))
        }
        Some(_) | None => {
            FailedAttempt::new(Failure::Nonsense, format!("what it sent isn't HTTP/2: {error}"))
        }
    }
}
