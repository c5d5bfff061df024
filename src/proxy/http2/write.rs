use std::{future::poll_fn, io, task::Poll};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{BodyPart, head};

/// A piece that is smaller goes out with what frames it in one write.
const SMALL: usize = 16 * 1024;

/// Writes a body.
pub(crate) enum Writer<W> {
    /// With what tells its end: the length that the head said, chunks, or the end of the connection.
    Plain {
        io: W,
        chunked: bool,
    },
    Stream(SendStream<Bytes>),
    /// There is no body, or it was said with the head that there isn't.
    Ended(Option<W>),
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    /// Writes a piece. `last`: nothing follows it.
    pub(crate) async fn write(&mut self, piece: BodyPart, last: bool) -> io::Result<()> {
        match (self, piece) {
            (Self::Plain { io, chunked }, BodyPart::Data(data)) => {
                write_plain(io, *chunked, data, last).await
            }
            (Self::Plain { io, chunked }, BodyPart::Trailers(fields)) => {
                if *chunked {
                    let mut end = b"0\r\n".to_vec();
                    head::write_trailers(&fields, &mut end);
                    io.write_all(&end).await?;
                }
                io.flush().await
            }
            (Self::Stream(stream), BodyPart::Data(data)) => send(stream, data, last).await,
            (Self::Stream(stream), BodyPart::Trailers(fields)) => send_trailers(stream, fields),
            (Self::Ended(_), _) => Ok(()),
        }
    }

    /// Ends a body whose last piece was not known to be the last.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Plain { io, chunked } => {
                if *chunked {
                    io.write_all(b"0\r\n\r\n").await?;
                }
                io.flush().await
            }
            Self::Stream(stream) => stream.send_data(Bytes::new(), true).map_err(io::Error::other),
            Self::Ended(_) => Ok(()),
        }
    }

    /// Says that the rest of the body doesn't come, as far as the protocol can say so.
    pub(crate) fn break_off(&mut self, reason: Reason) {
        match self {
            Self::Stream(stream) => stream.send_reset(reason),
            Self::Plain { .. } | Self::Ended(_) => {}
        }
    }

    /// Ready once whoever reads it said that they don't any more.
    pub(crate) fn poll_gone(&mut self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        match self {
            Self::Stream(stream) => stream.poll_reset(cx).map(drop),
            Self::Plain { .. } | Self::Ended(_) => Poll::Pending,
        }
    }

    /// The connection, where it is one of HTTP/1.1.
    pub(crate) fn into_io(self) -> Option<W> {
        match self {
            Self::Plain { io, .. } => Some(io),
            Self::Ended(io) => io,
            Self::Stream(_) => None,
        }
    }
}

async fn write_plain<W: AsyncWrite + Unpin>(
    io: &mut W,
    chunked: bool,
    data: Bytes,
    last: bool,
) -> io::Result<()> {
    if !chunked {
        io.write_all(&data).await?;
        return io.flush().await;
    }
    let end: &[u8] = if last { b"\r\n0\r\n\r\n" } else { b"\r\n" };
    let mut framed = format!("{:x}\r\n", data.len()).into_bytes();
    if data.len() <= SMALL {
        framed.extend_from_slice(&data);
        framed.extend_from_slice(end);
        io.write_all(&framed).await?;
    } else {
        io.write_all(&framed).await?;
        io.write_all(&data).await?;
        io.write_all(end).await?;
    }
    io.flush().await
}

/// Hands data to a stream as fast as its reader gives room.
async fn send(stream: &mut SendStream<Bytes>, mut data: Bytes, last: bool) -> io::Result<()> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let room = poll_fn(|cx| {
            loop {
                let room = stream.capacity();
                if room > 0 {
                    return Poll::Ready(Ok(room));
                }
                match std::task::ready!(stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                    None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                }
            }
        });
        let part = data.split_to(room.await?.min(data.len()));
        stream.send_data(part, last && data.is_empty()).map_err(io::Error::other)?;
    }
    Ok(())
}

fn send_trailers(stream: &mut SendStream<Bytes>, fields: HeaderMap) -> io::Result<()> {
    stream.send_trailers(fields).map_err(io::Error::other)
}
