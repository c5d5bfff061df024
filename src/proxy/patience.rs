use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// How long a connection waits for whatever it waits for. One timer serves all its waits: it is armed anew only when it fires
/// too early or would fire too late, and not once a call.
#[derive(Debug)]
pub(crate) struct Patience {
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Patience {
    pub(crate) fn new(wait: Duration) -> Self {
        let deadline = Instant::now() + wait;
        Self { deadline, timer: Box::pin(sleep_until(deadline)) }
    }

    /// From now on it is waited so long.
    pub(crate) fn begin(&mut self, wait: Duration) {
        self.deadline = Instant::now() + wait;
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        }
    }

    /// Ready once the wait is over.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(self.deadline);
        }
        Poll::Pending
    }
}
