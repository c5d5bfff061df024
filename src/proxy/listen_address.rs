//! An address on which it is listened, as the threads know it, and how what came in there ends once it was closed.
//!
//! A socket that is closed takes nothing more. What waits in its queue is taken first. One of TCP is gone then, since whoever
//! connects would wait for nobody; one of UDP goes with its last flow, to which answers go from there. Calls and flows that came in go on as
//! at a drain: an idle connection isn't closed, and ends with its next answer, also where the table has its service no more by then. What is
//! left at `until` is cut. At an address that another program has as well (`shared`), what waits is taken only where nobody else would.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::{
    form::{AddressForm, AddressKind},
    live::Transport,
    shared::{PAUSE, Sharing},
};

#[derive(Debug)]
pub(crate) struct ListenAddress {
    pub form: AddressForm,
    pub sharing: Sharing,
    /// By which the kernel tells its socket from those of others; 0 where nobody has to.
    pub inode: u64,
    /// Until when nothing is accepted, at most: it is asked who else does.
    paused_until: Mutex<Option<Instant>>,
    resumed: Notify,
    /// Connections are waited for there.
    has_begun: AtomicBool,
    /// Another program has ended listening there, and it can't be begun again.
    is_deaf: AtomicBool,
    /// Connections and flows that came in here and have not ended.
    accepted: AtomicUsize,
    /// Until when they may go on; known once the address was closed.
    until: OnceLock<Instant>,
    drained: Notify,
}

/// A connection or a flow that came in, until it is dropped.
#[derive(Debug)]
pub(crate) struct Accepted(Arc<ListenAddress>);

/// Nothing is accepted at an address until this is dropped, or for as long as that may last.
#[derive(Debug)]
pub(crate) struct Paused(Arc<ListenAddress>);

impl ListenAddress {
    pub(crate) fn new(form: AddressForm, sharing: Sharing, inode: u64) -> Arc<Self> {
        Arc::new(Self {
            form,
            sharing,
            inode,
            paused_until: Mutex::default(),
            resumed: Notify::new(),
            has_begun: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            until: OnceLock::new(),
            drained: Notify::new(),
        })
    }

    /// For which services it is.
    pub(crate) fn transport(&self) -> Transport {
        match self.form.kind {
            AddressKind::Http | AddressKind::Https => Transport::Http,
            AddressKind::Tcp => Transport::Tcp,
            AddressKind::Tls => Transport::Tls,
            AddressKind::Udp => Transport::Udp,
        }
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more is accepted from now on by a thread that is done with what it does.
    pub(crate) fn pause(self: &Arc<Self>) -> Paused {
        *self.paused_until() = Some(Instant::now() + PAUSE);
        Paused(Arc::clone(self))
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_until().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until it is accepted again.
    pub(crate) async fn resumed(&self) {
        // First, lest it goes on between the look and the wait.
        let resumed = self.resumed.notified();
        let until = *self.paused_until();
        if let Some(until) = until {
            let _ = timeout_at(until, resumed).await;
        }
    }

    /// From now on connections come in at a shared address, as long as a table wants them.
    pub(crate) fn note_begun(&self) {
        self.has_begun.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::SeqCst)
    }

    /// Whether it can't be listened any more. Gives whether that is news.
    pub(crate) fn note_deaf(&self, is_deaf: bool) -> bool {
        self.is_deaf.swap(is_deaf, Ordering::SeqCst) != is_deaf
    }

    pub(crate) fn is_deaf(&self) -> bool {
        self.is_deaf.load(Ordering::SeqCst)
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

impl Drop for Paused {
    fn drop(&mut self) {
        *self.0.paused_until() = None;
        self.0.resumed.notify_waiters();
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
