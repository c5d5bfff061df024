use std::{
    io,
    task::{Context, Poll},
};

use bytes::Bytes;
use h2::{Reason, server::SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{
    head::{self, Answer},
    write::Writer,
};
use crate::{
    answer::{ERROR_FIELD, Own},
    head::{Framing, RequestSummary},
};

/// Names the version that an answer is of.
const VERSION_FIELD: HeaderName = HeaderName::from_static("x-choirmaster-version");

/// Where the answer to a call goes.
pub(crate) enum AnswerTo<W> {
    Plain { io: W, asked: RequestSummary },
    Stream { respond: SendResponse<Bytes>, is_head: bool },
}

impl<W: AsyncWrite + Unpin> AnswerTo<W> {
    /// Ready once the caller took the call back, as far as the protocol can say so.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain { .. } => Poll::Pending,
            Self::Stream { respond, .. } => respond.poll_reset(cx).map(drop),
        }
    }

    /// Whether the connection can take a further call.
    pub(crate) fn stays(&self) -> bool {
        match self {
            Self::Plain { asked, .. } => asked.keep_alive,
            Self::Stream { .. } => true,
        }
    }

    /// Passes on a head with a status from 100 to 199.
    pub(crate) async fn interim(&mut self, answer: Answer) -> io::Result<()> {
        match self {
            Self::Plain { asked, .. } if asked.is_http10 => Ok(()),
            Self::Plain { io, asked } => {
                let (head, _) = answer.to_plain(asked, true, false);
                io.write_all(&head).await?;
                io.flush().await
            }
            Self::Stream { respond, .. } => {
                respond.send_informational(response(answer)).map_err(io::Error::other)
            }
        }
    }

    /// Passes the head of the answer on. Gives what writes its body, and whether the caller's connection ends with it.
    pub(crate) async fn head(
        &mut self,
        answer: Answer,
        ended: bool,
        close: bool,
    ) -> io::Result<(Writer<&mut W>, bool)> {
        match self {
            Self::Plain { io, asked } => {
                let close = close || !asked.keep_alive;
                let (head, framing) = answer.to_plain(asked, ended, close);
                io.write_all(&head).await?;
                io.flush().await?;
                let writer = match framing {
                    Framing::None => Writer::Ended(None),
                    Framing::Chunked => Writer::Plain { io, chunked: true },
                    Framing::Length(_) | Framing::UntilClose => Writer::Plain { io, chunked: false },
                };
                Ok((writer, close || framing == Framing::UntilClose))
            }
            Self::Stream { respond, .. } => {
                let stream = respond.send_response(response(answer), ended).map_err(io::Error::other)?;
                Ok((if ended { Writer::Ended(None) } else { Writer::Stream(stream) }, false))
            }
        }
    }

    /// Answers with what the proxy says itself.
    pub(crate) async fn own(&mut self, own: &Own, close: bool) -> io::Result<()> {
        match self {
            Self::Plain { io, asked } => {
                io.write_all(&own.write(Some(asked), close)).await?;
                io.flush().await
            }
            Self::Stream { respond, is_head } => {
                let (head, text) = said(own)?;
                let mut stream = respond.send_response(head, *is_head).map_err(io::Error::other)?;
                if *is_head {
                    return Ok(());
                }
                stream.send_data(text, true).map_err(io::Error::other)
            }
        }
    }

    /// Ends a call that can't be answered.
    pub(crate) fn break_off(&mut self, reason: Reason) {
        match self {
            Self::Plain { .. } => {}
            Self::Stream { respond, .. } => respond.send_reset(reason),
        }
    }
}

/// What the proxy says itself: the head and the body.
fn said(own: &Own) -> io::Result<(Response<()>, Bytes)> {
    let text = own.body();
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(Own::CONTENT_TYPE));
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
    let name = HeaderName::from_bytes(ERROR_FIELD.as_bytes()).map_err(io::Error::other)?;
    fields.insert(name, HeaderValue::from_static(own.error));
    if let Some(seconds) = own.retry_after {
        fields.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    let status = StatusCode::from_u16(own.status).map_err(io::Error::other)?;
    Ok((response(Answer { status, fields }), text.into()))
}

fn response(answer: Answer) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.fields;
    response
}

/// The fields that an answer gets: which version it is of, and the key of a sticky choice.
pub(crate) fn added(version: &str, cookie: Option<&str>) -> Vec<(HeaderName, HeaderValue)> {
    let version = head::value(version).map(|name| (VERSION_FIELD, name));
    let cookie = cookie.and_then(head::value).map(|cookie| (header::SET_COOKIE, cookie));
    version.into_iter().chain(cookie).collect()
}
