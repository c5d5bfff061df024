//! What is in the store and can't be read: logged and counted where it is met.

use std::sync::atomic::{AtomicU64, Ordering};

use store::{StoreError, TABLES};

/// Rows that could not be read since the start, by table. One that is met again counts again.
#[derive(Debug, Default)]
pub struct Unreadable([AtomicU64; TABLES.len()]);

impl Unreadable {
    /// Takes note of an error of the store, if it is one about a row. Other errors are left to whoever has them.
    pub fn note(&self, error: &StoreError) {
        let StoreError::BadRow { table, .. } = error else { return };
        tracing::error!(%error, "what is stored can't be read, and nothing is decided as if it were not there");
        if let Some(at) = TABLES.iter().position(|known| known == table) {
            self.0[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each table with the rows of it that could not be read.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        TABLES.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
