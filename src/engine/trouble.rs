//! A store that takes nothing at the moment: what is said of it, and how often.

use std::time::Duration;

use tokio::time::Instant;

use super::view::View;
use crate::store::StoreError;

/// A trouble that lasts is logged this often.
const SAID_EVERY: Duration = Duration::from_mins(1);

/// Whether there is trouble, and when it was logged last.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    said: Option<Instant>,
}

impl Trouble {
    /// An attempt to write failed and is made again.
    pub fn met(&mut self, view: &View, error: &StoreError) {
        let full = matches!(error, StoreError::Full(_));
        view.set_store_full(full);
        if self.said.is_some_and(|said| said.elapsed() < SAID_EVERY) {
            return;
        }
        self.said = Some(Instant::now());
        if full {
            tracing::error!(%error, "nothing can be stored until there is room; what was acknowledged is safe");
        } else {
            tracing::warn!(%error, "a commit failed; it is tried again as it was until it succeeds");
        }
    }

    /// The store takes what it is given.
    pub fn over(&mut self, view: &View) {
        if self.said.take().is_some() {
            view.set_store_full(false);
            tracing::info!("the store takes commits again");
        }
    }
}
