//! What the engine knows: children, releases, and where each child stands in each release that is not over.
//!
//! Only `apply` (in [`super::apply`]) changes it. Everything here can be rebuilt from the store's rows.

mod counts;
mod release;
mod standing;

use std::collections::{BTreeMap, HashMap};

pub use counts::{Bad, Counts};
pub use release::{Release, Sweep};
pub use standing::{End, ReleaseClock, ReleaseState};

/// Whoever reads a release from a store makes one; nothing of it is stored.
pub use crate::plan::KeptCover;

use super::{assignment::Assignment, schedule::Schedule, settings::Settings};
use crate::children::Children;
use model::{ChildKey, Now, ReleaseId, ReleaseKey};

/// What is remembered of every release, over or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub key: ReleaseKey,
    pub digest: [u8; 32],
}

/// Everything. See the module's text.
#[derive(Debug, Default)]
pub struct State {
    pub settings: Settings,
    pub children: Children,
    /// Those that are not over, and those with undos that are not confirmed.
    pub releases: BTreeMap<ReleaseKey, Release>,
    /// Every release ever.
    pub known: HashMap<ReleaseId, Known>,
    pub next_release: u32,
    /// Releases that left memory and were not taken note of yet.
    pub(in crate::release) closed: BTreeMap<ReleaseKey, Release>,
    /// Commands so far.
    pub decided: u64,
    /// How many they were when a release left memory last.
    pub(in crate::release) last_left: u64,
    /// When what of `releases` is to be looked at.
    pub(in crate::release) schedule: Schedule,
}

impl State {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    pub fn release(&self, key: ReleaseKey) -> Option<&Release> {
        self.releases.get(&key)
    }

    /// The serving time at which a tick has something to look at: the next deadline of a release whose clock runs, the
    /// start of one, or the next child that may be a ghost or another's successor. It may have passed.
    pub fn next_due(&self, now: Now) -> Option<u64> {
        let looks = self.children.next_due().into_iter();
        looks.chain(self.schedule.next(now)).min()
    }

    /// A release that is in memory, or left it just now.
    pub fn find(&self, key: ReleaseKey) -> Option<&Release> {
        self.releases.get(&key).or_else(|| self.closed.get(&key))
    }

    /// A release in memory, by id.
    pub fn release_by_id(&self, id: &str) -> Option<&Release> {
        self.releases.get(&self.known.get(id)?.key)
    }

    pub fn assignment(&self, release: ReleaseKey, child: ChildKey) -> Option<&Assignment> {
        self.releases.get(&release)?.assignments.get(&child)
    }

    /// Notes which children are to be looked at again, of all who are there; after a start.
    pub fn recheck_all(&mut self, served_ms: u64) {
        let parts = self.releases.values().flat_map(|release| release.assignments.iter());
        let debtors = parts.filter(|(_, part)| part.owes_overdue()).map(|(child, _)| *child);
        self.children.recheck_all(debtors, self.settings.absence, served_ms);
    }
}
