//! A store that takes nothing while it is told not to, and a manager on it.

use std::{fmt, path::Path, time::Duration};

use domain::{children::Poll, release::settings::Settings};
use engine::{RunningEngine, TaskSettings};
use futures_util::future::{BoxFuture, ready};
use model::ChildId;
use store::{
    Loader, Pruning, StoreError, Writer,
    options::OpenOptions,
    rows::{Batch, LeaseRow},
    url,
};
use tokio::time::{sleep, timeout};

/// Longer than any trouble lasts.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A manager on a store in this folder that asks what is the matter before it writes.
pub async fn start(folder: &Path, fault: impl Fault + 'static) -> RunningEngine {
    start_at(&format!("sqlite://{}", folder.join("choir.db").display()), fault).await
}

/// A manager on the store of this URL that asks what is the matter before it writes.
pub async fn start_at(place: &str, fault: impl Fault + 'static) -> RunningEngine {
    let (store, reader) = url::open(place, &OpenOptions::new()).await.unwrap();
    let writer = Box::new(Faulty { store, fault });
    engine::start(writer, reader, Settings::default(), TaskSettings::default()).await.unwrap()
}

/// The first call of a child that says nothing of itself.
pub fn first_poll(id: &str) -> Poll {
    Poll {
        child: None,
        fresh: ChildId::parse(id).unwrap(),
        area: None,
        address: None,
        agents: 0,
        profile: None,
        tenant: None,
    }
}

pub async fn wait_until(is_so: impl Fn() -> bool) {
    let look = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, look).await.expect("it comes to that");
}

/// What is the matter with a batch, or with a renewal of the lease (`None`).
pub trait Fault: FnMut(Option<&Batch>) -> Option<StoreError> + Send {}

impl<F: FnMut(Option<&Batch>) -> Option<StoreError> + Send> Fault for F {}

/// A store that asks before it writes.
struct Faulty<F> {
    store: Box<dyn Writer>,
    fault: F,
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
