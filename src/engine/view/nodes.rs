//! Nodes as their calls see them: when each last said what runs there, and whether that and what is to run there are known already.
//!
//! A node calls again and again with nothing new, and then neither the engine's task nor its state is asked.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

use model::ChildKey;
use protocol::measurements::{NodeHealth, Sample, Samples};

/// All nodes that have called in this life.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    by_key: RwLock<HashMap<ChildKey, Arc<NodeCalls>>>,
    /// Told of each change.
    changed: Arc<Notify>,
}

/// What is known of the calls of a node.
#[derive(Debug, Default)]
pub struct NodeCalls {
    /// Serving time of the last call, and 1.
    seen: AtomicU64,
    /// Grows whenever something changes of what runs there, or is to.
    revision: AtomicU64,
    /// What it said last, by its hash, and what it was to run then: each with the revision at which that was so.
    said: Mutex<Option<(u64, u64)>>,
    wanted: Mutex<Option<(u64, Arc<str>)>>,
    /// How its machine was when it said so last, and when that was in milliseconds since 1970.
    health: Mutex<Option<(NodeHealth, i64)>>,
    /// Samples that it told: the run of its program, and the number that the next one has.
    told: Mutex<(u64, u64)>,
}

impl NodeCalls {
    /// To be read before the engine's task is asked, and told with what follows from its answer.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Whether the engine knows that the node says this, which is told by its hash.
    pub fn is_known(&self, said: u64) -> bool {
        *lock(&self.said) == Some((self.revision(), said))
    }

    /// The engine was told it, and nothing changed.
    pub fn know(&self, revision: u64, said: u64) {
        *lock(&self.said) = Some((revision, said));
    }

    /// By what a node knows what it is to run, where that is known to be so still.
    pub fn wanted(&self) -> Option<Arc<str>> {
        let now = self.revision();
        lock(&self.wanted)
            .as_ref()
            .filter(|(revision, _)| *revision == now)
            .map(|(_, state)| Arc::clone(state))
    }

    pub fn want(&self, revision: u64, state: &str) {
        *lock(&self.wanted) = Some((revision, state.into()));
    }

    pub(super) fn set_health(&self, health: NodeHealth, at_ms: i64) {
        *lock(&self.health) = Some((health, at_ms));
    }

    /// Samples that it didn't tell before.
    pub(crate) fn newer(&self, samples: Samples) -> impl Iterator<Item = (u64, Sample)> + use<> {
        let mut told = lock(&self.told);
        let from = if told.0 == samples.run { told.1 } else { 0 };
        *told = (samples.run, samples.next().max(from));
        (samples.first..).zip(samples.all).filter(move |(number, _)| *number >= from)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nodes {
    /// Notes a call of a node.
    pub fn report(&self, node: ChildKey, served_ms: u64) -> Arc<NodeCalls> {
        let known = self.get(node);
        let calls = known.unwrap_or_else(|| {
            Arc::clone(self.by_key.write().unwrap_or_else(PoisonError::into_inner).entry(node).or_default())
        });
        calls.seen.store(served_ms + 1, Ordering::Relaxed);
        calls
    }

    /// Serving time of the last call of a node in this life.
    pub fn last_report(&self, node: ChildKey) -> Option<u64> {
        self.get(node)?.seen.load(Ordering::Relaxed).checked_sub(1)
    }

    /// How the machine of a node was when it said so last, and when that was in milliseconds since 1970.
    pub fn health(&self, node: ChildKey) -> Option<(NodeHealth, i64)> {
        *lock(&self.get(node)?.health)
    }

    /// Something of it may have changed.
    pub fn change(&self, node: ChildKey) {
        if let Some(calls) = self.get(node) {
            calls.revision.fetch_add(1, Ordering::Release);
            self.changed.notify_waiters();
        }
    }

    /// Wakes whoever waits for it when something of a node may have changed.
    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    pub fn remove(&self, node: ChildKey) {
        if self.get(node).is_some() {
            self.by_key.write().unwrap_or_else(PoisonError::into_inner).remove(&node);
        }
    }

    fn get(&self, node: ChildKey) -> Option<Arc<NodeCalls>> {
        self.by_key.read().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }
}
