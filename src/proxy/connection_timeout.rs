use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::AsyncWrite,
    time::{Instant, Sleep, sleep_until},
};

/// How long a connection waits for whatever it waits for. One timer serves all its waits: it is armed anew only when it fires
/// too early or would fire too late, and not once a call. The clock is looked at only where there is something to wait for.
#[derive(Debug)]
pub(crate) struct ConnectionTimeout {
    wait: Wait,
    timer: Pin<Box<Sleep>>,
}

#[derive(Debug, Clone, Copy)]
enum Wait {
    /// So long from when it is waited for the first time.
    For(Duration),
    Until(Instant),
}

impl ConnectionTimeout {
    pub(crate) fn new(wait: Duration) -> Self {
        let deadline = Instant::now() + wait;
        Self { wait: Wait::Until(deadline), timer: Box::pin(sleep_until(deadline)) }
    }

    /// From now on it is waited so long.
    pub(crate) fn begin(&mut self, wait: Duration) {
        self.wait = Wait::For(wait);
    }

    /// When the wait is over.
    pub(crate) fn deadline(&mut self) -> Instant {
        match self.wait {
            Wait::Until(deadline) => deadline,
            Wait::For(wait) => {
                let deadline = Instant::now() + wait;
                self.begin_until(deadline);
                deadline
            }
        }
    }

    /// From now on it is waited until then.
    pub(crate) fn begin_until(&mut self, deadline: Instant) {
        self.wait = Wait::Until(deadline);
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
    }

    /// Writes all of it, as long as the other end takes some of it every so often.
    pub(crate) async fn write_all<W: AsyncWrite + Unpin>(
        &mut self,
        to: &mut W,
        bytes: &[u8],
        wait: Duration,
    ) -> io::Result<()> {
        let mut written = 0;
        self.begin(wait);
        while written < bytes.len() {
            let write = poll_fn(|cx| match Pin::new(&mut *to).poll_write(cx, &bytes[written..]) {
                Poll::Ready(write) => Poll::Ready(write),
                Poll::Pending => self.poll_over(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
            });
            match write.await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                some => written += some,
            }
            self.begin(wait);
        }
        Ok(())
    }

    /// Ready once the wait is over.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline();
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}
