//! The store as the one who writes to it sees it: commits that are made once, and the lease.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    clock::{Clock, LeaseRenewal},
    stats::Stats,
    store_outage::StoreTrouble,
    view::View,
};
use store::{
    LEASE_RENEWAL, StoreError, Writer,
    rows::{Batch, Writes},
};

/// Between two attempts of a commit that failed.
const COMMIT_RETRY: Duration = Duration::from_millis(100);

/// All writing goes through it.
#[derive(Debug)]
pub struct StoreWriter {
    pub writer: Box<dyn Writer>,
    clock: Clock,
    view: Arc<View>,
    /// Of the next commit.
    seq: u64,
    renewed: Instant,
    trouble: StoreTrouble,
}

impl StoreWriter {
    pub fn new(writer: Box<dyn Writer>, clock: Clock, view: Arc<View>) -> Self {
        let seq = writer.lease().seq;
        Self { writer, clock, view, seq, renewed: Instant::now(), trouble: StoreTrouble::default() }
    }

    /// The number of the next commit.
    pub const fn next_seq(&self) -> u64 {
        self.seq
    }

    /// When the lease must be renewed.
    pub fn renewal(&self) -> Instant {
        self.renewed + LEASE_RENEWAL
    }

    /// Commits, and gives back what was written.
    pub async fn commit(&mut self, writes: Writes, served_ms: u64) -> Result<Writes, StoreError> {
        let epoch = self.writer.lease().epoch;
        let batch = Batch { epoch, seq: self.seq, served_ms, writes };
        self.try_until_known(&batch).await?;
        self.seq += 1;
        Ok(batch.writes)
    }

    /// Commits until the store says that it is done, or that it never will be.
    async fn try_until_known(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            let sent = self.clock.sending();
            match self.writer.commit(batch).await {
                Ok(()) => {
                    self.view.stats.committed(began.elapsed());
                    self.renewed(sent);
                    self.trouble.note_over(&self.view);
                    return Ok(());
                }
                Err(error) if error.passes() => {
                    Stats::count(&self.view.stats.commit_retries);
                    self.trouble.note_met(&self.view, &error, Instant::now());
                    sleep(COMMIT_RETRY).await;
                }
                Err(error) => {
                    tracing::error!(seq = batch.seq, %error, "a commit was refused; nothing of it is kept");
                    return Err(error);
                }
            }
        }
    }

    fn renewed(&mut self, sent: LeaseRenewal) {
        self.renewed = Instant::now();
        self.clock.renewed(sent);
    }

    /// Returns while the lease is fresh. It is not after a standstill, of this process or of the store: then another
    /// manager may have taken it, and what is in memory here, even what was committed just before, may be out of date.
    pub async fn hold_lease(&mut self) -> Result<(), StoreError> {
        while !self.clock.is_serving() {
            self.try_renew().await?;
        }
        Ok(())
    }

    pub async fn renew(&mut self) -> Result<(), StoreError> {
        if self.renewed.elapsed() < LEASE_RENEWAL {
            return Ok(());
        }
        self.try_renew().await
    }

    /// Renews the lease, or waits a moment where the store does not answer.
    async fn try_renew(&mut self) -> Result<(), StoreError> {
        let sent = self.clock.sending();
        match self.writer.renew(self.clock.served_ms()).await {
            Ok(()) => {
                self.renewed(sent);
                self.trouble.note_over(&self.view);
            }
            Err(error) if error.passes() => {
                self.trouble.note_met(&self.view, &error, Instant::now());
                sleep(COMMIT_RETRY).await;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
