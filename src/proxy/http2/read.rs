use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use h2::{Reason, RecvStream};
use http::HeaderMap;
use tokio::io::AsyncRead;

use super::head;
use crate::{
    body::{Body, Run},
    head::Framing,
    stream::poll_fill,
};

/// How much is read at once.
const ROOM: usize = 32 * 1024;

/// A part of a body.
#[derive(Debug, Clone)]
pub(crate) enum BodyPart {
    Data(Bytes),
    /// Fields behind the body, after which nothing comes.
    Trailers(HeaderMap),
}

/// Why a body can't be read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFault {
    #[error("it isn't a body: {0}")]
    Malformed(&'static str),
    /// The connection ended, or what was sent over it makes no sense.
    #[error("{0}")]
    Ended(String),
    #[error("the sender took it back: {0}")]
    Reset(Reason),
}

/// Reads a body.
pub(crate) enum Reader<R> {
    Plain(PlainReader<R>),
    Stream(StreamReader),
}

/// A body of HTTP/1.1.
pub(crate) struct PlainReader<R> {
    pub io: R,
    /// What came and was not read yet; behind the body's end it belongs to what follows.
    pub inbox: BytesMut,
    body: Body,
    trailers: Vec<u8>,
}

/// A body of HTTP/2.
pub(crate) struct StreamReader {
    stream: RecvStream,
    /// How much of the sender's window is given back when the next piece is asked for.
    unreleased: usize,
    is_over: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn plain(io: R, inbox: BytesMut, framing: Framing) -> Self {
        Self::Plain(PlainReader { io, inbox, body: Body::new(framing), trailers: Vec::new() })
    }

    pub(crate) fn stream(stream: RecvStream) -> Self {
        let is_over = stream.is_end_stream();
        Self::Stream(StreamReader { stream, unreleased: 0, is_over })
    }

    /// Whether it is known that no further piece comes.
    pub(crate) fn is_ended(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.body.is_done() && plain.trailers.is_empty(),
            Self::Stream(stream) => stream.is_over,
        }
    }

    /// The next piece; nothing behind the last one.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyPart, ReadFault>>> {
        match self {
            Self::Plain(plain) => plain.poll_piece(cx),
            Self::Stream(stream) => stream.poll_piece(cx),
        }
    }
}

impl<R: AsyncRead + Unpin> PlainReader<R> {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyPart, ReadFault>>> {
        loop {
            let run = self.body.run();
            match run {
                Run::Done => return Poll::Ready(self.take_trailers()),
                Run::Data(left) if !self.inbox.is_empty() => {
                    let len = self.inbox.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if let Err(fault) = self.body.take(&self.inbox[..len]) {
                        return Poll::Ready(Some(Err(ReadFault::Malformed(fault.0))));
                    }
                    return Poll::Ready(Some(Ok(BodyPart::Data(self.inbox.split_to(len).freeze()))));
                }
                Run::Between | Run::Trailers if !self.inbox.is_empty() => {
                    if let Err(fault) = self.body.take(&self.inbox[..1]) {
                        return Poll::Ready(Some(Err(ReadFault::Malformed(fault.0))));
                    }
                    if run == Run::Trailers {
                        self.trailers.push(self.inbox[0]);
                    }
                    self.inbox.advance(1);
                }
                Run::Data(_) | Run::Between | Run::Trailers => {
                    match ready!(poll_fill(&mut self.io, &mut self.inbox, ROOM, cx)) {
                        Ok(1..) => {}
                        Ok(0) if self.body.ends_with_connection() => return Poll::Ready(None),
                        Ok(0) => {
                            let why = "the connection ended in the middle of a body".to_owned();
                            return Poll::Ready(Some(Err(ReadFault::Ended(why))));
                        }
                        Err(error) => return Poll::Ready(Some(Err(ReadFault::Ended(error.to_string())))),
                    }
                }
            }
        }
    }

    fn take_trailers(&mut self) -> Option<Result<BodyPart, ReadFault>> {
        let text = std::mem::take(&mut self.trailers);
        if text.is_empty() || text == b"\r\n" {
            return None;
        }
        match head::trailers(&text) {
            Some(fields) if fields.is_empty() => None,
            Some(fields) => Some(Ok(BodyPart::Trailers(fields))),
            None => Some(Err(ReadFault::Malformed("trailers that aren't fields"))),
        }
    }
}

impl StreamReader {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyPart, ReadFault>>> {
        let unreleased = std::mem::take(&mut self.unreleased);
        if unreleased > 0 {
            // It fails only where the stream is over, and then nobody waits for room.
            let _ = self.stream.flow_control().release_capacity(unreleased);
        }
        loop {
            if self.is_over {
                return Poll::Ready(None);
            }
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    self.unreleased = data.len();
                    self.is_over = self.stream.is_end_stream();
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(BodyPart::Data(data))));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(fault_of(&error)))),
                None => {
                    let trailers = ready!(self.stream.poll_trailers(cx));
                    self.is_over = true;
                    return Poll::Ready(match trailers {
                        Ok(trailers) => trailers.map(|fields| Ok(BodyPart::Trailers(fields))),
                        Err(error) => Some(Err(fault_of(&error))),
                    });
                }
            }
        }
    }
}

fn fault_of(error: &h2::Error) -> ReadFault {
    match error.reason() {
        Some(reason) if error.is_reset() && error.is_remote() => ReadFault::Reset(reason),
        Some(_) | None => ReadFault::Ended(error.to_string()),
    }
}
