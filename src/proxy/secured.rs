//! Connections of callers that speak TLS: they agree on a protocol, and go on in that.

use std::{
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    caller::Caller,
    connection,
    http2::{self, Rewound},
    stream::Stream,
    tls::Tls,
    worker::Worker,
};

/// Serves a connection whose caller speaks TLS.
pub(crate) async fn serve(stream: TcpStream, mut caller: Caller, tls: &Tls, worker: Rc<Worker>) {
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    let stream = match timeout(worker.limits().handshake, handshake).await {
        Ok(Ok(stream)) => Secured { stream, unanswered: 0 },
        Ok(Err(error)) => {
            tracing::debug!(caller = %caller.address, %error, "a handshake of TLS failed");
            return;
        }
        Err(_) => return,
    };
    caller.scheme = "https";
    if stream.stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(Rewound::new(BytesMut::new(), stream), caller, worker).await;
    } else {
        connection::serve(stream, caller, worker).await;
    }
}

/// A connection of TLS to which nothing is written that stays behind in it: as with a plain connection, what was written is on
/// its way.
struct Secured {
    stream: TlsStream<TcpStream>,
    /// Bytes that were taken and not yet said to be written. Whoever wrote them asks again with the same bytes.
    unanswered: usize,
}

impl Stream for Secured {
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (stream, session) = self.stream.get_mut();
        match session.process_new_packets() {
            Ok(state) if state.plaintext_bytes_to_read() == 0 => stream.poll_read_ready(cx),
            Ok(_) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(io::Error::other(error))),
        }
    }

    fn break_off(&mut self) {
        self.stream.get_mut().0.break_off();
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.unanswered == 0 {
            self.unanswered = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        Poll::Ready(Ok(std::mem::take(&mut self.unanswered).min(buf.len())))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
