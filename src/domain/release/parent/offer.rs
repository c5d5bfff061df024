//! What this manager and its parent have said to each other of a release.

use crate::release::{ending::Ending, manager::Agents};
use model::StageStatus;

/// Where a release came from, and what was said of it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentOffer {
    /// The id of the parent's offer.
    pub offer: String,
    /// So many stages of the success path were reported; [`ALL_REPORTED`]: nothing more is to be said.
    pub reported: u8,
    /// Orders of the parent to take it back, which are to be answered when that is done.
    pub undos: Vec<String>,
    /// The parent's own release is paused.
    pub held: bool,
    /// What it was told last, under this offer.
    pub said: Option<LastReport>,
    /// How often a stage has failed below and kept its shares.
    pub failures: u32,
    /// The last of these, until it is decided above what becomes of them.
    pub failed: Option<Box<Ending>>,
}

/// The last stage that was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastReport {
    pub stage: u8,
    pub status: StageStatus,
    pub agents: Agents,
    /// How often that was said anew of the agents.
    pub recounts: u32,
}

/// After a failure no later stage is reported.
const ALL_REPORTED: u8 = u8::MAX;

impl ParentOffer {
    pub fn new(offer: String) -> Self {
        Self { offer, reported: 0, undos: Vec::new(), held: false, said: None, failures: 0, failed: None }
    }

    /// Takes note that a stage was reported.
    pub(super) fn report(&mut self, stage: u8, status: StageStatus, agents: Agents) {
        self.said = Some(LastReport { stage, status, agents, recounts: 0 });
        self.reported =
            if status == StageStatus::Completed { self.reported.saturating_add(1) } else { ALL_REPORTED };
    }
}
