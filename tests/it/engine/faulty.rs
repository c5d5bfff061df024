//! A store that takes nothing while it is told not to.

use std::fmt;

use choirmaster::store::{
    Loader, Pruning, StoreError, Writer,
    rows::{Batch, LeaseRow},
};
use futures_util::future::{BoxFuture, ready};

/// What is the matter with a batch, or with a renewal of the lease (`None`).
pub trait Fault: FnMut(Option<&Batch>) -> Option<StoreError> + Send {}

impl<F: FnMut(Option<&Batch>) -> Option<StoreError> + Send> Fault for F {}

/// A store that asks before it writes.
pub struct Faulty<F> {
    pub store: Box<dyn Writer>,
    pub fault: F,
}

impl<F> fmt::Debug for Faulty<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<F: Fault> Writer for Faulty<F> {
    fn lease(&self) -> &LeaseRow {
        self.store.lease()
    }

    fn load<'a>(&'a mut self, loader: &'a mut dyn Loader) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.load(loader)
    }

    fn commit<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        match (self.fault)(Some(batch)) {
            Some(error) => Box::pin(ready(Err(error))),
            None => self.store.commit(batch),
        }
    }

    fn renew(&mut self, served_ms: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        match (self.fault)(None) {
            Some(error) => Box::pin(ready(Err(error))),
            None => self.store.renew(served_ms),
        }
    }

    fn prune_history(&mut self, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.store.prune_history(limit)
    }

    fn prune_audit(&mut self, pruning: Pruning) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.store.prune_audit(pruning)
    }

    fn release(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.release()
    }
}
