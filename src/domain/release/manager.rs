//! A child that is a manager itself: how it is planned, and how agents are counted.
//!
//! Where the release has waves its agents may be spread over several: then it is handed an offer for each wave in which more
//! of them have their turn, and each continues the one before. What it is handed is in [`super::delegated_offer`].

use std::{collections::BTreeMap, sync::Arc};

use model::{ChildKey, Outcome, steps};

/// Agents by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agents {
    /// For whom it was planned.
    pub participants: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Not heard of in time, or their result was lost.
    pub timed_out: u32,
    pub unreachable: u32,
    /// Neither failed nor succeeded, for want of calls. A manager that knows nothing of it says nothing.
    pub untested: u32,
    /// They may run what was taken back.
    pub unconfirmed: u32,
}

impl Agents {
    fn numbers(&mut self) -> [&mut u32; 7] {
        [
            &mut self.participants,
            &mut self.succeeded,
            &mut self.failed,
            &mut self.timed_out,
            &mut self.unreachable,
            &mut self.untested,
            &mut self.unconfirmed,
        ]
    }

    pub fn add(&mut self, mut other: Self) {
        for (sum, more) in self.numbers().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_add(*more);
        }
    }

    pub fn remove(&mut self, mut other: Self) {
        for (sum, less) in self.numbers().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_sub(*less);
        }
    }

    /// Whether some were left untested, nobody succeeded, and nobody ended badly.
    pub const fn are_untested(&self) -> bool {
        self.untested > 0 && self.succeeded == 0 && self.bad() == 0
    }

    /// Those that ended badly.
    pub const fn bad(&self) -> u32 {
        self.failed.saturating_add(self.timed_out).saturating_add(self.unreachable)
    }
}

impl Agents {
    pub(super) fn count(&mut self, outcome: Option<Outcome>, agents: u32) {
        match outcome {
            Some(Outcome::Succeeded) => self.succeeded = agents,
            Some(Outcome::Failed) => self.failed = agents,
            Some(Outcome::TimedOut | Outcome::Lost) => self.timed_out = agents,
            Some(Outcome::Unreachable) => self.unreachable = agents,
            Some(Outcome::Untested) => self.untested = agents,
            None | Some(Outcome::Undone | Outcome::Excluded(_)) => {}
        }
    }
}

/// A child manager as it was planned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Planned {
    /// Agents below it.
    pub agents: u32,
    /// The waves (from 0) in which more of them have their turn, ascending, and how many have had it then. Empty: all in
    /// one.
    pub quotas: Vec<(u32, u32)>,
}

impl Planned {
    /// How many of its agents have had their turn in the waves below `open`.
    pub(super) fn done_before(&self, open: u32) -> u32 {
        self.quotas.iter().take_while(|(wave, _)| *wave < open).last().map_or(0, |(_, agents)| *agents)
    }
}

/// The managers that take part in a release. How many agents they have together is asked with every change of the release,
/// so it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Managers {
    planned: Arc<BTreeMap<ChildKey, Planned>>,
    agents: u64,
}

impl Managers {
    pub fn get(&self, child: &ChildKey) -> Option<&Planned> {
        self.planned.get(child)
    }

    /// Takes one in, or plans it otherwise.
    pub fn insert(&mut self, child: ChildKey, planned: Planned) {
        self.agents += u64::from(planned.agents);
        let before = Arc::make_mut(&mut self.planned).insert(child, planned);
        self.agents -= before.map_or(0, |before| u64::from(before.agents));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ChildKey, &Planned)> {
        self.planned.iter().inspect(|_| steps::take(1))
    }

    pub fn keys(&self) -> impl Iterator<Item = &ChildKey> {
        self.iter().map(|(child, _)| child)
    }

    pub fn len(&self) -> usize {
        self.planned.len()
    }

    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    pub fn by_key(&self) -> &BTreeMap<ChildKey, Planned> {
        &self.planned
    }

    /// Agents below all of them.
    pub fn agents(&self) -> u32 {
        u32::try_from(self.agents).unwrap_or(u32::MAX)
    }
}

impl FromIterator<(ChildKey, Planned)> for Managers {
    fn from_iter<T: IntoIterator<Item = (ChildKey, Planned)>>(all: T) -> Self {
        let mut managers = Self::default();
        all.into_iter().for_each(|(child, planned)| managers.insert(child, planned));
        managers
    }
}

/// Names, in the answer to a poll and among a child's capabilities, that a manager can be told to try those of its agents
/// again that ended badly.
pub const FEATURE_RETRY: &str = "retry";

/// The part of `most` that falls to `agents` of `all`, at least one.
pub(super) fn share(most: u32, agents: u32, all: u32) -> u32 {
    let part = u64::from(most) * u64::from(agents) / u64::from(all.max(1));
    (part as u32).clamp(1, most.max(1))
}
