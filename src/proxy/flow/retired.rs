use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::{live::Version, worker::Worker};

/// Waits until a version has had no share of its service's flows for so long.
pub(super) async fn retired(worker: &Worker, (service, version): (&str, &Version), drain: Duration) {
    let mut tables = worker.tables();
    let gets_some = || worker.local().table().gives_share(service, version);
    loop {
        while gets_some() {
            // The worker lives for as long as anything that it serves.
            if tables.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
        let until = Instant::now() + drain;
        let some_again = async { while tables.changed().await.is_ok() && !gets_some() {} };
        if timeout_at(until, some_again).await.is_err() {
            return;
        }
    }
}
