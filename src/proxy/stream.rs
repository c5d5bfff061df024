use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// How much is read at once.
pub(crate) const ROOM: usize = 16 * 1024;

/// A connection, of a caller or to a version.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {
    /// Ready once there may be something to read, so that an idle connection needs no buffer.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sees to it that the other end takes what comes for an error once this end is dropped, and not for an end.
    fn break_off(&mut self);
}

impl Stream for TcpStream {
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }

    fn break_off(&mut self) {
        // Where that can't be, the connection is closed as ever.
        let _ = self.set_zero_linger();
    }
}

/// A connection to a version.
#[derive(Debug)]
pub(crate) enum ToVersion {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream for ToVersion {
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    fn break_off(&mut self) {
        match self {
            Self::Tcp(stream) => stream.break_off(),
            // A local socket knows no such end.
            Self::Unix(_) => {}
        }
    }
}

impl AsyncRead for ToVersion {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ToVersion {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Reads what is there behind what the buffer holds; 0 is the end of the connection.
pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut bytes::BytesMut,
    room: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    buffer.reserve(room);
    tokio_util::io::poll_read_buf(Pin::new(stream), cx, buffer)
}
