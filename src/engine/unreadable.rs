//! What is in the store and can't be read: logged and counted where it is met.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use store::{StoreError, TABLES};

/// Rows that could not be read since the start, by table. One that is met again counts again.
#[derive(Debug, Default)]
pub struct Unreadable {
    rows: [AtomicU64; TABLES.len()],
    /// Rows of the outbox that nobody carries out because they can't be read.
    effects: Mutex<BTreeSet<u64>>,
}

impl Unreadable {
    /// Takes note of an error of the store, if it is one about a row. Other errors are left to whoever has them.
    pub fn note(&self, error: &StoreError) {
        let StoreError::BadRow { table, .. } = error else { return };
        tracing::error!(%error, "what is stored can't be read, and nothing is decided as if it were not there");
        if let Some(at) = TABLES.iter().position(|known| known == table) {
            self.rows[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes note of a row of the outbox that can't be read.
    pub(super) fn note_effect(&self, id: u64, error: &StoreError) {
        self.note(error);
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// Rows of the outbox that nobody carries out.
    pub(super) fn effects(&self) -> BTreeSet<u64> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Each table with the rows of it that could not be read.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        TABLES.into_iter().zip(self.rows.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
