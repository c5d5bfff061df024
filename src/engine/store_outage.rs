//! A store that takes nothing at the moment: what is said of it, and how often.

use std::time::Duration;

use tokio::time::Instant;

use super::view::View;
use store::StoreError;

/// A trouble that lasts is logged this often.
const SAID_EVERY: Duration = Duration::from_mins(1);

/// Whether there is trouble, and when it was logged last.
#[derive(Debug, Default)]
pub struct StoreTrouble {
    said: Option<Instant>,
}

impl StoreTrouble {
    /// An attempt to write failed just now and is made again.
    pub fn note_met(&mut self, view: &View, error: &StoreError, now: Instant) {
        let full = matches!(error, StoreError::Full(_));
        view.note_outage(full, now);
        if self.said.is_some_and(|said| now.duration_since(said) < SAID_EVERY) {
            return;
        }
        self.said = Some(now);
        if full {
            tracing::error!(%error, "nothing can be stored until there is room; what was acknowledged is safe");
        } else {
            tracing::warn!(%error, "a commit failed; it is tried again as it was until it succeeds");
        }
    }

    /// The store takes what it is given.
    pub fn note_over(&mut self, view: &View) {
        if self.said.take().is_some() {
            view.note_recovered();
            tracing::info!("the store takes commits again");
        }
    }
}
