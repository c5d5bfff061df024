//! All children by id, as readers find them.
//!
//! Tables of hashes, each behind a lock of its own: whoever looks holds one for some tens of nanoseconds, and only the
//! engine's task ever takes one to write, when a child comes, changes or goes. A map without locks keeps each entry in
//! an allocation of its own, which is more memory than the rest of what is kept of an idle child.

use std::{
    array,
    hash::{BuildHasher as _, RandomState},
    ops::Deref,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use hashbrown::{HashTable, hash_table::Entry};

use super::view::Published;
use domain::children::registration::Registration;

/// Calls of different children seldom meet in one of so many tables, and to make one larger takes no time that matters.
const SHARDS: usize = 256;

/// What readers know of a child. Replaced as a whole when what it says of itself changes.
#[derive(Debug, Clone)]
pub struct ChildEntry(Arc<Registration>);

impl Deref for ChildEntry {
    type Target = Registration;

    fn deref(&self) -> &Registration {
        &self.0
    }
}

impl ChildEntry {
    /// Shows `registration` in the place of what was shown `before`.
    pub(super) fn new(registration: &Arc<Registration>, before: Option<&Self>, deciding_at: u64) -> Self {
        let live = &registration.live;
        let seen = before.map_or(0, |before| before.live.seen.load(Ordering::Relaxed));
        live.seen.store(seen, Ordering::Relaxed);
        let stored = before.map_or(0, |before| before.live.stored_seen_s.load(Ordering::Relaxed));
        live.stored_seen_s.store(stored, Ordering::Relaxed);
        let noted_s = match before {
            Some(before) if before.address == registration.address => {
                before.live.address_noted_s.load(Ordering::Relaxed)
            }
            _ => seconds(deciding_at),
        };
        live.address_noted_s.store(noted_s, Ordering::Relaxed);
        Self(Arc::clone(registration))
    }

    /// Whether it shows this very record, or one that says the same.
    pub(super) fn shows(&self, registration: &Arc<Registration>) -> bool {
        Arc::ptr_eq(&self.0, registration) || self.0 == *registration
    }

    #[inline]
    pub fn turn(&self) -> Published {
        Published::unpack(self.live.turn.load(Ordering::Acquire))
    }

    pub(super) fn set_turn(&self, turn: u64) {
        self.live.turn.store(turn, Ordering::Release);
    }

    /// Notes a call of any kind.
    #[inline]
    pub fn touch(&self, served_ms: u64) {
        self.live.seen.store(served_ms + 1, Ordering::Relaxed);
    }

    /// Serving time of the last call.
    #[inline]
    pub fn last_call(&self) -> Option<u64> {
        self.live.seen.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Serving time at which its address was noted, in milliseconds, to the second.
    #[inline]
    pub fn address_noted(&self) -> u64 {
        u64::from(self.live.address_noted_s.load(Ordering::Relaxed)) * 1_000
    }

    /// The last call, if it is to be stored: at most once in `every_ms`.
    pub(super) fn seen_to_store(&self, every_ms: u64) -> Option<u64> {
        let seen = self.last_call()?;
        let stored = u64::from(self.live.stored_seen_s.load(Ordering::Relaxed)) * 1_000;
        if seen < stored + every_ms {
            return None;
        }
        self.live.stored_seen_s.store(seconds(seen), Ordering::Relaxed);
        Some(seen)
    }
}

/// Whole seconds, rounded up: nothing counts as older than it is. There are enough of them for 136 years.
const fn seconds(ms: u64) -> u32 {
    ms.div_ceil(1_000) as u32
}

type Shard = HashTable<ChildEntry>;

/// Children by id, in parts that are locked apart.
#[derive(Debug)]
pub(super) struct Directory {
    shards: [RwLock<Shard>; SHARDS],
    len: AtomicUsize,
    hasher: RandomState,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            shards: array::from_fn(|_| RwLock::default()),
            len: AtomicUsize::new(0),
            hasher: RandomState::new(),
        }
    }
}

impl Directory {
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// No lock is held any more when this returns, so whoever works with the entry keeps nobody waiting.
    pub fn get(&self, id: &str) -> Option<ChildEntry> {
        let hash = self.hash(id);
        read(self.shard(hash)).find(hash, |entry| entry.id.is(id)).cloned()
    }

    /// Takes an entry in, or replaces the one of the same id.
    pub fn insert(&self, entry: ChildEntry) {
        let hash = self.hash(entry.id.as_str());
        let mut shard = write(self.shard(hash));
        let is_same = |other: &ChildEntry| other.id == entry.id;
        match shard.entry(hash, is_same, |other| self.hash(other.id.as_str())) {
            Entry::Occupied(mut found) => *found.get_mut() = entry,
            Entry::Vacant(place) => {
                place.insert(entry);
                self.len.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub fn remove(&self, id: &str) {
        let hash = self.hash(id);
        let mut shard = write(self.shard(hash));
        if let Ok(found) = shard.find_entry(hash, |entry| entry.id.is(id)) {
            found.remove();
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn hash(&self, id: &str) -> u64 {
        self.hasher.hash_one(id)
    }

    /// The tables look at the first and the last bits of a hash; these are others.
    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}

fn read(shard: &RwLock<Shard>) -> RwLockReadGuard<'_, Shard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<Shard>) -> RwLockWriteGuard<'_, Shard> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}
