//! The clock of a release: it stands still while the release is paused, so that no deadline passes meanwhile.

use model::Now;

/// Milliseconds of a release's own clock: serving time, without pauses.
pub type ReleaseMs = u64;

/// The clock of a release: serving time since the store began, without the time that the release was paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReleaseClock {
    pub paused_ms: u64,
    pub paused_since: Option<u64>,
}

impl ReleaseClock {
    pub fn at(&self, now: Now) -> ReleaseMs {
        let standing = self.paused_since.map_or(0, |since| now.served_ms.saturating_sub(since));
        now.served_ms.saturating_sub(self.paused_ms + standing)
    }

    pub fn pause(&mut self, now: Now) {
        self.paused_since.get_or_insert(now.served_ms);
    }

    pub fn resume(&mut self, now: Now) {
        if let Some(since) = self.paused_since.take() {
            self.paused_ms += now.served_ms.saturating_sub(since);
        }
    }
}
