//! What the task does now and then beside commands: it stores who called last, and removes old rows.

use std::time::Duration;

use tokio::time::Instant;

use super::store_writer::StoreWriter;
use crate::view::View;
use domain::children::Children;
use model::{ChildKey, Now};
use store::Pruning;

/// The time of a child's last call is stored at most once in this time.
const SEEN_EVERY: Duration = Duration::from_mins(5);

/// Looks for last calls to store this often.
const SEEN_SWEEP: Duration = Duration::from_secs(30);

/// Most last calls stored in one commit, and the time between two such commits: a small part of what commits carry, and
/// all children are looked at in time up to a million of them.
const SEEN_SLICE: usize = 500;
const SEEN_PACE: Duration = Duration::from_millis(100);

/// Old audit rows are removed this often, at most so many at once, and where there are more the next ones soon after: more
/// may be written in a minute.
pub const PRUNE_EVERY: Duration = Duration::from_mins(1);
pub const PRUNE_SLICE: u32 = 5_000;
const PRUNE_PACE: Duration = Duration::from_secs(1);

/// Most rows of removed releases that go at once, and the time until the next go if there are more.
const REMOVE_SLICE: u32 = 2_000;
const REMOVE_PACE: Duration = Duration::from_secs(1);

/// When each is done next.
#[derive(Debug)]
pub struct Chores {
    /// When last calls were looked at.
    swept: Instant,
    /// The child with which that goes on; 0: with the first.
    sweep_at: u32,
    prune_at: Instant,
    /// When it is looked at next whether rows of removed releases are left.
    remove_at: Instant,
}

impl Chores {
    pub fn new() -> Self {
        let now = Instant::now();
        Self { swept: now, sweep_at: 0, prune_at: now + PRUNE_EVERY, remove_at: now }
    }

    /// A release has left the history: its rows can go.
    pub fn remove_soon(&mut self) {
        self.remove_at = Instant::now();
    }

    /// The next slice of last calls that are to be stored.
    pub fn seen_to_store(&mut self, children: &Children, view: &View, now: Now) -> Vec<(u32, i64)> {
        let pause = if self.sweep_at == 0 { SEEN_SWEEP } else { SEEN_PACE };
        if self.swept.elapsed() < pause {
            return Vec::new();
        }
        self.swept = Instant::now();
        let every = SEEN_EVERY.as_millis() as u64;
        let from = self.sweep_at.checked_sub(1).map(ChildKey);
        let mut seen = Vec::new();
        self.sweep_at = 0;
        for (looked, (key, _)) in children.after(from).enumerate() {
            if looked >= SEEN_SLICE {
                break;
            }
            self.sweep_at = key.0 + 1;
            if let Some(served) = view.children.entry(key).and_then(|entry| entry.seen_to_store(every)) {
                let ago = now.served_ms.saturating_sub(served).cast_signed();
                seen.push((key.0, now.wall_ms - ago));
            }
        }
        if children.after(self.sweep_at.checked_sub(1).map(ChildKey)).next().is_none() {
            self.sweep_at = 0;
        }
        seen
    }

    pub async fn prune(&mut self, store_writer: &mut StoreWriter, retention: Duration, served_ms: u64) {
        if Instant::now() < self.prune_at {
            return;
        }
        let retention_ms = retention.as_millis() as u64;
        let pruning = Pruning { served_ms, retention_ms, limit: PRUNE_SLICE };
        let gone = store_writer.writer.prune_audit(pruning).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "old audit rows could not be removed");
            0
        });
        self.prune_at = Instant::now() + prune_again(gone);
    }

    /// A part of the rows of releases that have left the history.
    pub async fn remove_rows(&mut self, store_writer: &mut StoreWriter) {
        if Instant::now() < self.remove_at {
            return;
        }
        let pause = match store_writer.writer.prune_history(REMOVE_SLICE).await {
            Ok(gone) if gone == u64::from(REMOVE_SLICE) => REMOVE_PACE,
            Ok(_) => PRUNE_EVERY,
            Err(error) => {
                tracing::warn!(%error, "rows of old releases could not be removed");
                PRUNE_EVERY
            }
        };
        self.remove_at = Instant::now() + pause;
    }
}

/// When to remove the next old audit rows, after so many.
pub const fn prune_again(gone: u64) -> Duration {
    if gone < PRUNE_SLICE as u64 { PRUNE_EVERY } else { PRUNE_PACE }
}
