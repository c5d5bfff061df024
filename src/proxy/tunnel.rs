use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;

use crate::{
    Limits,
    patience::Patience,
    stream::{Stream, ToVersion, poll_fill},
};

/// How much is read at once, in each direction.
const ROOM: usize = 16 * 1024;

/// Passes bytes in both directions until both ends have closed, one fails, or nothing moved for too long, which is sooner where one
/// end has closed already. What came already goes first.
pub(crate) async fn run<S: Stream>(
    (caller, from_caller): (&mut S, &mut BytesMut),
    (mut version, mut from_version): (ToVersion, BytesMut),
    limits: &Limits,
) {
    let mut patience = Patience::new(limits.tunnel_idle);
    let (mut up, mut down) = (Way::Open, Way::Open);
    poll_fn(|cx| {
        let mut moved = false;
        let up_ended = up.poll(caller, from_caller, &mut version, &mut moved, cx);
        let down_ended = down.poll(&mut version, &mut from_version, caller, &mut moved, cx);
        if moved {
            let is_open = up == Way::Open && down == Way::Open;
            patience.begin(if is_open {
                limits.tunnel_idle
            } else {
                limits.body_idle.min(limits.tunnel_idle)
            });
        }
        match (up_ended, down_ended) {
            (Poll::Ready(Err(_)), _)
            | (_, Poll::Ready(Err(_)))
            | (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ => patience.poll_over(cx),
        }
    })
    .await;
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// The sender has closed; what came is still written.
    Ending,
    Ended,
}

impl Way {
    fn poll<R: Stream, W: AsyncWrite + Unpin>(
        &mut self,
        from: &mut R,
        came: &mut BytesMut,
        to: &mut W,
        moved: &mut bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !came.is_empty() {
                match ready!(Pin::new(&mut *to).poll_write(cx, came))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => came.advance(written),
                }
                *moved = true;
                continue;
            }
            match self {
                Self::Open => {
                    let input = from.poll_input(cx)?;
                    if input.is_pending() && came.capacity() > 0 {
                        // A quiet connection holds no buffer.
                        *came = BytesMut::new();
                    }
                    ready!(input);
                    if ready!(poll_fill(from, came, ROOM, cx))? == 0 {
                        *self = Self::Ending;
                    }
                    *moved = true;
                }
                Self::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    *self = Self::Ended;
                }
                Self::Ended => return Poll::Ready(Ok(())),
            }
        }
    }
}
