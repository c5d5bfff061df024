//! Which managers are above this one, and how the link to them stands: what tells a tree from a cycle.
//!
//! Read with every poll of a manager below, changed when the parent says something new. It is kept in memory: the first
//! answer of the parent says it again.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use model::{ManagerClock, ManagerInstant, Now};

/// Managers remembered that were refused because they are above this one.
const MAX_REFUSED: usize = 1_000;

/// This manager and those above it, as calls see them.
#[derive(Debug, Default)]
pub struct Lineage {
    above: RwLock<Arc<[String]>>,
    refused: Mutex<BTreeSet<String>>,
    pub link: LinkNumbers,
    /// The time of the manager at the top.
    clock: RwLock<ManagerClock>,
}

impl Lineage {
    /// The parent told the time: when it was asked and when it answered, in serving time, and what it told.
    pub fn heard_time(&self, sent_ms: u64, came_ms: u64, told: ManagerInstant) {
        let mut clock = self.clock.write().unwrap_or_else(PoisonError::into_inner);
        clock.heard(sent_ms, came_ms, told.ms, told.error_ms);
    }

    /// The time at the top; that of this manager where nobody above has told one.
    pub fn time(&self, now: Now) -> ManagerInstant {
        let clock = self.clock.read().unwrap_or_else(PoisonError::into_inner);
        clock.at(now.served_ms).unwrap_or(ManagerInstant { ms: now.wall_ms, error_ms: 0 })
    }

    /// The managers above this one, nearest first.
    pub fn above(&self) -> Arc<[String]> {
        Arc::clone(&self.above.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn set_above(&self, above: Vec<String>) {
        *self.above.write().unwrap_or_else(PoisonError::into_inner) = above.into();
        self.refused().clear();
    }

    /// Notes that a manager was refused; true: for the first time since something changed above.
    pub fn note_refused(&self, id: &str) -> bool {
        let mut refused = self.refused();
        if refused.len() >= MAX_REFUSED {
            refused.clear();
        }
        refused.insert(id.to_owned())
    }

    fn refused(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the link to the parent stands, for whoever watches.
#[derive(Debug, Default)]
pub struct LinkNumbers {
    has_parent: AtomicBool,
    is_up: AtomicBool,
    /// Serving time at which the parent last answered a poll well, plus one; 0: not in this life.
    answered: AtomicU64,
    unsent: AtomicUsize,
}

/// [`LinkNumbers`] at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSnapshot {
    pub is_up: bool,
    /// Milliseconds since the parent last answered a poll well; `None`: it never did in this life.
    pub silent_ms: Option<u64>,
    /// Results that the parent has not answered.
    pub unsent: usize,
}

impl LinkNumbers {
    /// There is a parent, and this is how it stands.
    pub fn set(&self, is_up: bool, unsent: usize) {
        self.has_parent.store(true, Ordering::Relaxed);
        self.is_up.store(is_up, Ordering::Relaxed);
        self.unsent.store(unsent, Ordering::Relaxed);
    }

    pub fn answered(&self, served_ms: u64) {
        self.answered.store(served_ms + 1, Ordering::Relaxed);
    }

    /// `None`: there is no parent.
    pub fn look(&self, served_ms: u64) -> Option<LinkSnapshot> {
        self.has_parent.load(Ordering::Relaxed).then(|| LinkSnapshot {
            is_up: self.is_up.load(Ordering::Relaxed),
            silent_ms: self
                .answered
                .load(Ordering::Relaxed)
                .checked_sub(1)
                .map(|at| served_ms.saturating_sub(at)),
            unsent: self.unsent.load(Ordering::Relaxed),
        })
    }
}
