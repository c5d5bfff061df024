//! Large bodies, within the memory that all of one kind together may take.
//!
//! Only what has arrived counts: whoever announces much and sends nothing takes nothing from others.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    BoxError,
    body::{Body, Bytes},
};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of each body so much is free, in bytes: a strategy, and what an agent says, get through whatever large bodies are under
/// way.
pub const FREE_BYTES: usize = 128 * 1024;

/// What a body has taken of the memory for all; it is given back when this is dropped.
#[derive(Debug, Default)]
pub struct MemoryReservation {
    taken: Mutex<Option<OwnedSemaphorePermit>>,
    refused: AtomicBool,
}

impl MemoryReservation {
    /// Whether there was not enough for the body.
    pub fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    fn take(&self, memory: &Arc<Semaphore>, kib: u32) -> bool {
        let Ok(more) = Arc::clone(memory).try_acquire_many_owned(kib) else {
            self.refused.store(true, Ordering::Relaxed);
            return false;
        };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.as_mut() {
            Some(taken) => taken.merge(more),
            None => *taken = Some(more),
        }
        true
    }
}

/// A body that ends with an error when there is no memory left for it.
#[derive(Debug)]
pub struct MeteredBody {
    inner: Body,
    memory: Arc<Semaphore>,
    account: Arc<MemoryReservation>,
    /// Bytes that have come.
    seen: usize,
    /// KiB taken for them.
    taken: usize,
}

impl MeteredBody {
    pub fn new(inner: Body, memory: Arc<Semaphore>, account: Arc<MemoryReservation>) -> Self {
        Self { inner, memory, account, seen: 0, taken: 0 }
    }

    fn pay(&mut self, bytes: usize) -> bool {
        self.seen += bytes;
        let due = self.seen.saturating_sub(FREE_BYTES).div_ceil(1024);
        let more = due.saturating_sub(self.taken);
        self.taken = due.max(self.taken);
        more == 0 || u32::try_from(more).is_ok_and(|kib| self.account.take(&self.memory, kib))
    }
}

impl HttpBody for MeteredBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Bytes::len));
        if bytes.is_some_and(|bytes| !self.pay(bytes)) {
            let error = io::Error::other("there is no memory for more bodies");
            return Poll::Ready(Some(Err(error.into())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
