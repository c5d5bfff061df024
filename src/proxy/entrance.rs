//! A listening socket as the threads know it, and how what came in there ends once it was given back.
//!
//! A socket that is given back takes nothing more. What waits in its queue is taken first. One of TCP is closed then, since whoever
//! connects would wait for nobody; one of UDP with its last flow, to which answers go from there. Calls and flows that came in go on as
//! at a drain: an idle connection isn't closed, and ends with its next answer. What is left at `until` is cut.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{sync::Notify, time::Instant};

#[derive(Debug)]
pub(crate) struct Entrance {
    pub at: SocketAddr,
    pub is_udp: bool,
    /// Connections and flows that came in here and have not ended.
    inside: AtomicUsize,
    /// Until when they may go on; known once the socket was given back.
    until: OnceLock<Instant>,
    emptied: Notify,
}

/// A connection or a flow that came in, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside(Arc<Entrance>);

impl Entrance {
    pub(crate) fn new(at: SocketAddr, is_udp: bool) -> Arc<Self> {
        Arc::new(Self {
            at,
            is_udp,
            inside: AtomicUsize::new(0),
            until: OnceLock::new(),
            emptied: Notify::new(),
        })
    }

    pub(crate) fn enter(self: &Arc<Self>) -> Inside {
        self.inside.fetch_add(1, Ordering::SeqCst);
        Inside(Arc::clone(self))
    }

    /// What came in may go on until then. The first time counts.
    pub(crate) fn give_back(&self, until: Instant) {
        let _ = self.until.set(until);
    }

    pub(crate) fn until(&self) -> Option<Instant> {
        self.until.get().copied()
    }

    pub(crate) fn is_given_back(&self) -> bool {
        self.until.get().is_some()
    }

    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }

    /// Waits until nothing is left of what came in.
    pub(crate) async fn emptied(&self) {
        loop {
            // First, lest it is told between the look and the wait.
            let emptied = self.emptied.notified();
            if self.inside() == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl Inside {
    pub(crate) fn entrance(&self) -> &Arc<Entrance> {
        &self.0
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.0.inside.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.emptied.notify_waiters();
        }
    }
}
