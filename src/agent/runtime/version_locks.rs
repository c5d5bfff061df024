use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::OwnedMutexGuard;

/// Who changes a version; one at a time does.
pub(crate) type VersionLock = OwnedMutexGuard<()>;

/// Whose turn it is, by a name of the version.
#[derive(Debug, Default)]
pub(crate) struct VersionLocks(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl VersionLocks {
    /// To wait for, or to try.
    pub(crate) fn of(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(name).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(name.to_owned(), Arc::downgrade(&turn));
        turn
    }
}
