use tokio::time::{Instant, timeout_at};

use crate::{live::Version, worker::Worker};

/// Waits until a version has had no share of its service's flows for as long as the table in force allows; where the service isn't in it
/// any more, or it doesn't say, for as long as the proxy's own setting does. Of what came in at an address that was closed it
/// waits no longer than until that is to end.
pub(super) async fn retired(worker: &Worker, service: &str, version: &Version) {
    let mut tables = worker.tables();
    let mut since = None;
    loop {
        let table = worker.local().table().clone();
        let without_share = if table.gives_share(service, version) {
            since = None;
            None
        } else {
            let drain = table.drain_of(service).unwrap_or(worker.limits().flow_drain);
            Some(*since.get_or_insert_with(Instant::now) + drain)
        };
        let until = without_share.into_iter().chain(worker.address().until()).min();
        // What isn't named any more is held by whoever uses it, and not by whoever waits.
        drop(table);
        let changed = match until {
            None => tables.changed().await,
            Some(until) => match timeout_at(until, tables.changed()).await {
                Ok(changed) => changed,
                Err(_) => return,
            },
        };
        // The worker lives for as long as anything that it serves.
        if changed.is_err() {
            return std::future::pending().await;
        }
    }
}
