//! What a plan says.

use super::{Entry, Liveness, Part, Why};
use language::Amount;
use model::ChildKey;

/// Children, agents and square kilometres of some group.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    pub children: u32,
    pub agents: u64,
    pub km2: f64,
}

impl Tally {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.add_with(entry, entry.agents);
    }

    pub(super) fn add_with(&mut self, entry: &Entry, agents: u32) {
        self.children += 1;
        self.agents += u64::from(agents);
        self.km2 += entry.km2();
    }
}

/// A wave, cumulative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wave {
    /// As the strategy has it.
    pub amount: Amount,
    /// Agents that have had their turn after it.
    pub agents: u32,
}

/// Who takes part, and how.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Ascending.
    pub members: Vec<ChildKey>,
    pub participants: Tally,
    /// Participants that have a part in another release, too, and have their turn after that.
    pub busy: u32,
    /// Indices of members of whose areas only a part may lie in the target's.
    pub partly: Vec<u32>,
    /// For each member the functions that it runs, as a set of indices; empty where everybody runs all.
    pub parts: Vec<u64>,
    /// In the order of [`Why`].
    pub excluded: Vec<(Why, Tally)>,
    /// For `location_sequential`: indices of `members` in the order of their turns. Else empty.
    pub sequence: Vec<u32>,
    /// For `waves`: who has had their turn after each. Waves that would hold nobody are left out. Else empty.
    pub waves: Vec<Wave>,
    /// For `waves`: live agents of the members before each member. Else empty.
    pub before: Vec<u32>,
    /// The agents of each member.
    pub liveness_checks: Vec<Liveness>,
    /// For `location_sequential`: so many of the sequence are live; the others have their turn together, last. Of a hybrid, of the
    /// agents.
    pub live: u32,
    /// Of a hybrid.
    pub routers: Option<Routers>,
}

/// The routers of a hybrid release, who have their turn when its agents have had theirs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Routers {
    /// Indices of members, ascending: all others are agents.
    pub members: Vec<u32>,
    /// So many of the waves are the agents'.
    pub waves_before: usize,
    /// For `location_sequential`: so many of the routers are live; the others have their turn together, last.
    pub live: u32,
}

/// Part of a sequence of locations.
#[derive(Debug, Clone, Copy)]
pub struct Half<'p> {
    /// Indices of members.
    pub turns: &'p [u32],
    /// So many of them are live, and come first.
    pub live: u32,
}

impl Plan {
    /// Whether a member of a hybrid release is a router; `at` is its index in `members`.
    pub fn is_router(&self, at: usize) -> bool {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        self.routers.as_ref().is_some_and(|routers| routers.members.binary_search(&at).is_ok())
    }

    /// The members that lead services; of a release without a group of routers of its own all of them.
    pub fn leaders(&self) -> impl Iterator<Item = ChildKey> {
        let leads = |(at, _): &(usize, &ChildKey)| self.routers.is_none() || self.is_router(*at);
        self.members.iter().enumerate().filter(leads).map(|(_, child)| *child)
    }

    /// The sequence of locations, of a hybrid first the agents' and then the routers'.
    pub fn sequence_by_group(&self) -> Vec<Half<'_>> {
        let routers = self.routers.as_ref().map_or(0, |routers| routers.members.len());
        let (agents, rest) = self.sequence.split_at(self.sequence.len().saturating_sub(routers));
        let halves = [(agents, self.live), (rest, self.routers.as_ref().map_or(0, |routers| routers.live))];
        halves
            .into_iter()
            .filter(|(turns, _)| !turns.is_empty())
            .map(|(turns, live)| Half { turns, live })
            .collect()
    }

    /// The functions that a member runs; `at` is its index in `members`.
    pub fn part(&self, at: usize) -> Part {
        self.parts.get(at).map_or(Part::ALL, |set| Part(*set))
    }
}
