//! Children as their calls are answered, and when each called last: the one thing that pages need beside a snapshot.

use std::sync::{
    Arc, PoisonError, RwLock, RwLockReadGuard,
    atomic::{AtomicU64, Ordering},
};

use super::{
    nodes::{NodeCalls, Nodes},
    turn::{Mode, word},
};
use crate::{
    directory::{ChildEntry, Directory},
    waiters::Waiters,
};
use domain::release::{command::LastSeen, state::Snapshot};
use model::{ChildKey, pages::Pages};
use protocol::measurements::NodeHealth;

/// Entries on a page.
const ON_A_PAGE: usize = 64;

type ByKey = Pages<Option<ChildEntry>, ON_A_PAGE>;

/// Children as calls see them, by id and by number.
#[derive(Debug, Default)]
pub struct Children {
    by_id: Directory,
    /// The same entries by number. Calls don't touch it: the engine's task does, and whoever looks at all children.
    by_key: RwLock<ByKey>,
    /// Serving time at which this life began. Nobody was listening before, so no silence is older.
    listening_since: AtomicU64,
    /// Serving time of what the engine decides at the moment.
    deciding_at: AtomicU64,
    /// Calls that wait for a child's turn to change: whoever waits is calling.
    waiters: Arc<Waiters>,
    nodes: Nodes,
}

impl LastSeen for Children {
    fn last_call(&self, child: ChildKey) -> Option<u64> {
        // Who waits for an answer is calling, however long ago the call began.
        if self.waiters.is_waiting(child) {
            return Some(self.deciding_at.load(Ordering::Relaxed));
        }
        Some(self.noticed(child).unwrap_or(0).max(self.listening_since.load(Ordering::Relaxed)))
    }

    fn called_since(&self, child: ChildKey, served_ms: u64) -> bool {
        self.waiters.is_waiting(child) || self.noticed(child).is_some_and(|last| last > served_ms)
    }

    fn last_report(&self, node: ChildKey) -> Option<u64> {
        let last = self.nodes.last_report(node).or_else(|| self.noticed(node)).unwrap_or(0);
        Some(last.max(self.listening_since()))
    }
}

impl Children {
    pub(super) fn new(waiters: Arc<Waiters>) -> Self {
        Self { waiters, ..Self::default() }
    }

    /// Looks a child up and works with it in place.
    pub fn with<T>(&self, id: &str, look: impl FnOnce(&ChildEntry) -> T) -> Option<T> {
        self.by_id.get(id).map(|entry| look(&entry))
    }

    pub fn get(&self, id: &str) -> Option<ChildEntry> {
        self.by_id.get(id)
    }

    /// By its number.
    pub fn entry(&self, key: ChildKey) -> Option<ChildEntry> {
        self.by_key().get(key.0 as usize)?.clone()
    }

    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Children that have not called for `silence_ms`, without those that come back under another id. As for deadlines,
    /// no silence is older than this life.
    pub fn silent(&self, served_ms: u64, silence_ms: u64) -> usize {
        let since = self.listening_since();
        let is_silent = |entry: &&ChildEntry| {
            let last = entry.last_call().unwrap_or(0).max(since);
            served_ms.saturating_sub(last) >= silence_ms && entry.turn().mode != Mode::Replaced
        };
        // A copy, so that a walk over all children keeps nobody from changing one.
        let by_key = self.by_key().clone();
        by_key.from(0).filter_map(|(_, entry)| entry.as_ref()).filter(is_silent).count()
    }

    /// Notes that a node says what runs there.
    pub fn report(&self, node: ChildKey, served_ms: u64) -> Arc<NodeCalls> {
        self.nodes.report(node, served_ms)
    }

    /// How the machine of a node was when it said so last, and when that was in milliseconds since 1970.
    pub fn health(&self, node: ChildKey) -> Option<(NodeHealth, i64)> {
        self.nodes.health(node)
    }

    /// Wakes whoever waits for it when something may have changed of what is placed on a node.
    pub fn placements_changed(&self) -> Arc<tokio::sync::Notify> {
        self.nodes.changed()
    }

    /// Serving time at which this manager began to answer.
    pub fn listening_since(&self) -> u64 {
        self.listening_since.load(Ordering::Relaxed)
    }

    // What follows is for the engine's task alone.

    pub(crate) fn listen_from(&self, served_ms: u64) {
        self.listening_since.store(served_ms, Ordering::Relaxed);
    }

    pub(crate) fn decide_at(&self, served_ms: u64) {
        self.deciding_at.store(served_ms, Ordering::Relaxed);
    }

    /// Shows what is committed of a child, and wakes the calls of it that wait for that.
    pub(crate) fn publish(&self, state: &Snapshot, key: ChildKey) {
        self.set(state, key);
        self.nodes.change(key);
        self.waiters.wake(key);
    }

    fn set(&self, state: &Snapshot, key: ChildKey) {
        let before = self.entry(key);
        let Some(child) = state.children.get(key) else {
            if let Some(entry) = before {
                self.set_entry(key, None);
                self.nodes.remove(key);
                self.by_id.remove(entry.id.as_str());
            }
            return;
        };
        let turn = word(state, key, child);
        let registration = &child.registration;
        if let Some(entry) = before.as_ref().filter(|entry| entry.shows(registration)) {
            entry.set_turn(turn);
            return;
        }
        let deciding_at = self.deciding_at.load(Ordering::Relaxed);
        let entry = ChildEntry::new(registration, before.as_ref(), deciding_at);
        entry.set_turn(turn);
        self.set_entry(key, Some(entry.clone()));
        self.by_id.insert(entry);
    }

    fn set_entry(&self, key: ChildKey, entry: Option<ChildEntry>) {
        let mut by_key = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
        let at = key.0 as usize;
        match entry {
            Some(_) => by_key.put(at, entry),
            None => drop(by_key.take(at)),
        }
    }

    /// The last call of a child in this life, in serving time.
    fn noticed(&self, child: ChildKey) -> Option<u64> {
        self.by_key().get(child.0 as usize)?.as_ref()?.last_call()
    }

    fn by_key(&self) -> RwLockReadGuard<'_, ByKey> {
        self.by_key.read().unwrap_or_else(PoisonError::into_inner)
    }
}
