//! The memory of calls: what one may have, and what all may have at once.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use wasmtime::{Error, ResourceLimiter, Result};

/// Bytes that an element of a table takes.
const ELEMENT: u64 = 16;
/// Core instances, memories and tables that one component may consist of.
const PARTS: usize = 1_000;

/// What all calls have together. A call that asks for more than is left gets none, so that it fails, and not all of them with the host.
#[derive(Debug)]
pub(super) struct Pool {
    left: AtomicU64,
}

impl Pool {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(bytes) })
    }

    fn take(&self, bytes: u64) -> bool {
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The memory of one call.
#[derive(Debug)]
pub(super) struct Memory {
    pool: Arc<Pool>,
    limit: u64,
    used: u64,
    /// What it got last, which may turn out not to be had.
    newest: u64,
    /// Whether it asked for more than it gets.
    was_refused: bool,
}

impl Memory {
    pub(super) fn new(pool: &Arc<Pool>, limit: u64) -> Self {
        Self { pool: Arc::clone(pool), limit, used: 0, newest: 0, was_refused: false }
    }

    pub(super) fn was_refused(&self) -> bool {
        self.was_refused
    }

    fn grow(&mut self, bytes: u64) -> bool {
        let is_within = self.used.checked_add(bytes).is_some_and(|used| used <= self.limit);
        if is_within && self.pool.take(bytes) {
            self.used += bytes;
            self.newest = bytes;
            true
        } else {
            self.was_refused = true;
            false
        }
    }

    fn undo(&mut self) {
        self.pool.give_back(self.newest);
        self.used -= self.newest;
        self.newest = 0;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.pool.give_back(self.used);
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.grow(desired.saturating_sub(current) as u64))
    }

    fn memory_grow_failed(&mut self, _error: Error) -> Result<()> {
        self.undo();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.grow((desired.saturating_sub(current) as u64).saturating_mul(ELEMENT)))
    }

    fn table_grow_failed(&mut self, _error: Error) -> Result<()> {
        self.undo();
        Ok(())
    }

    fn instances(&self) -> usize {
        PARTS
    }

    fn tables(&self) -> usize {
        PARTS
    }

    fn memories(&self) -> usize {
        PARTS
    }
}
