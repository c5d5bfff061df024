use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use crate::process_end;

/// Hears of the end of shims.
#[derive(Debug, Clone, Default)]
pub(super) struct Shims {
    watched: Arc<Mutex<BTreeSet<u32>>>,
    ended: Arc<Notify>,
}

impl Shims {
    /// From now on the end of this process is heard of.
    pub(super) fn watch(&self, shim: u32) {
        if !self.watched().insert(shim) {
            return;
        }
        let all = self.clone();
        tokio::spawn(async move {
            process_end::wait(shim).await;
            all.watched().remove(&shim);
            all.ended.notify_one();
        });
    }

    /// Waits until one has ended that nobody was told of yet.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, BTreeSet<u32>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
