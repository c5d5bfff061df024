//! An address on which it is listened, as the threads know it, and how what came in there ends once it was closed.
//!
//! A socket that is closed takes nothing more. What waits in its queue is taken first. One of TCP is gone then, since whoever
//! connects would wait for nobody; one of UDP goes with its last flow, to which answers go from there. Calls and flows that came in go on as
//! at a drain: an idle connection isn't closed, and ends with its next answer, also where the table has its service no more by then. What is
//! left at `until` is cut.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{sync::Notify, time::Instant};

use crate::form::AddressForm;

#[derive(Debug)]
pub(crate) struct ListenAddress {
    pub form: AddressForm,
    /// Connections and flows that came in here and have not ended.
    accepted: AtomicUsize,
    /// Until when they may go on; known once the address was closed.
    until: OnceLock<Instant>,
    drained: Notify,
}

/// A connection or a flow that came in, until it is dropped.
#[derive(Debug)]
pub(crate) struct Accepted(Arc<ListenAddress>);

impl ListenAddress {
    pub(crate) fn new(form: AddressForm) -> Arc<Self> {
        Arc::new(Self { form, accepted: AtomicUsize::new(0), until: OnceLock::new(), drained: Notify::new() })
    }

    /// Something came in.
    pub(crate) fn accept(self: &Arc<Self>) -> Accepted {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        Accepted(Arc::clone(self))
    }

    /// What came in may go on until then. The first time counts.
    pub(crate) fn close(&self, until: Instant) {
        let _ = self.until.set(until);
    }

    pub(crate) fn until(&self) -> Option<Instant> {
        self.until.get().copied()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.until.get().is_some()
    }

    /// How many connections and flows are left of those that came in.
    pub(crate) fn left(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Waits until nothing is left of what came in.
    pub(crate) async fn drained(&self) {
        loop {
            // First, lest it is told between the look and the wait.
            let drained = self.drained.notified();
            if self.left() == 0 {
                return;
            }
            drained.await;
        }
    }
}

impl Accepted {
    pub(crate) fn address(&self) -> &Arc<ListenAddress> {
        &self.0
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        if self.0.accepted.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.drained.notify_waiters();
        }
    }
}
