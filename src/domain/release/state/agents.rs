//! How many agents a release has: children, and those below children that are managers.

use super::Release;
use crate::release::{
    assignment::{Assignment, FunctionSet},
    clock::ReleaseMs,
    manager::{Agents, share},
};
use model::ChildKey;

impl Release {
    /// What is told of its agents to the parent: the sums over its children.
    pub fn agents(&self) -> Agents {
        Agents { participants: self.agents_planned(), ..self.counts.agents }
    }

    /// The sums over all agents; `None` where no manager takes part, and each child is an agent.
    pub fn agents_below(&self) -> Option<Agents> {
        (!self.managers.is_empty()).then(|| self.agents())
    }

    /// Agents for whom it was planned, or who joined.
    pub fn agents_planned(&self) -> u32 {
        self.agents_of_its_own().saturating_add(self.managers.agents())
    }

    /// Agents for whom it was planned, or who joined, that are children of this manager themselves.
    fn agents_of_its_own(&self) -> u32 {
        self.participants().saturating_sub(self.managers.len() as u32)
    }

    /// So many agents of its own may be at work at once; managers below have places of their own.
    pub fn places(&self, most: u32) -> u32 {
        if self.managers.is_empty() {
            return most;
        }
        share(most, self.agents_of_its_own(), self.agents_planned())
    }

    /// The part of a child that has not acted yet, led as it was planned.
    pub fn fresh_part(
        &self,
        child: ChildKey,
        is_in_place: bool,
        lacks: FunctionSet,
        at: ReleaseMs,
    ) -> Assignment {
        match self.managers.get(&child) {
            Some(planned) => Assignment::new_whole(planned.clone(), at).beginning(lacks, &self.strategy),
            None if is_in_place => Assignment::new_in_place(at).beginning(lacks, &self.strategy),
            None => Assignment::new(at).lacking(lacks, &self.strategy),
        }
    }
}
