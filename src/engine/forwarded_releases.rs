//! Where releases went that were handed to the parent.
//!
//! Each is a row of the store, written in the commit that makes it so, and comes back at a start. The latest [`MAX_POINTERS`]
//! are kept.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// Pointers that are kept; the oldest make way.
pub const MAX_POINTERS: usize = 1_000;

/// Where a release went that was submitted here and reaches beyond this manager's area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    pub release: String,
    /// The parent.
    pub to: String,
}

/// The pointers, oldest first, each with the row that keeps it.
#[derive(Debug, Default)]
pub struct Pointers(Mutex<VecDeque<(u64, Pointer)>>);

impl Pointers {
    /// Takes note of one, and of its key in the store.
    pub(super) fn note(&self, key: u64, pointer: Pointer) {
        self.with(|pointers| pointers.push_back((key, pointer)));
    }

    /// Where a release went, if it went up; the last time counts.
    pub fn get(&self, release: &str) -> Option<String> {
        self.with(|pointers| {
            let found = pointers.iter().rev().find(|(_, pointer)| pointer.release == release);
            found.map(|(_, pointer)| pointer.to.clone())
        })
    }

    /// The keys of those that make way.
    pub fn outdated(&self) -> Vec<u64> {
        self.with(|pointers| {
            let more = pointers.len().saturating_sub(MAX_POINTERS);
            pointers.drain(..more).map(|(row, _)| row).collect()
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut VecDeque<(u64, Pointer)>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
