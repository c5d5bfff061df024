//! How many children of a release are where, kept up to date with each step.

use crate::release::{assignment::Assignment, gate::Gates, manager::Agents};
use language::Group;
use model::Outcome;

/// Agents that did not end well, by what limits there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bad {
    pub failed: u32,
    /// Not heard of in time, or their result was lost.
    pub timed_out: u32,
    pub unreachable: u32,
    pub untested: u32,
}

impl Bad {
    /// Of agents, those that did not end well.
    pub const fn of(agents: Agents) -> Self {
        let Agents { failed, timed_out, unreachable, untested, .. } = agents;
        Self { failed, timed_out, unreachable, untested }
    }

    /// As one agent counts that ended like this.
    pub(in crate::release) fn counting(outcome: Outcome) -> Self {
        let mut agents = Agents::default();
        agents.count(Some(outcome), 1);
        Self::of(agents)
    }
}

/// How many children of a release are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub no: u32,
    pub todo: u32,
    pub doing: u32,
    pub done: u32,
    pub failed: u32,
    pub succeeded: u32,
    pub outcome_failed: u32,
    pub timed_out: u32,
    pub unreachable: u32,
    pub lost: u32,
    pub undone: u32,
    pub untested: u32,
    pub excluded: u32,
    /// Undos offered and not confirmed.
    pub undoing: u32,
    /// Undos that were offered, are not confirmed and are overdue.
    pub undo_overdue: u32,
    /// Neither over nor without an undo that is waited for.
    pub awaited: u32,
    /// Children that are neither over nor without an undo that is waited for, and whose wave has begun.
    pub awaited_now: u32,
    /// Children whose wave has begun and that have not ended.
    pub in_play: u32,
    /// Children whose wave has begun, that have not ended and have not come to the next barrier.
    pub behind: u32,
    /// Children in play that are still below what others may run already.
    pub trailing: u32,
    /// Places of `max_in_progress` that are taken.
    pub in_progress: u32,
    /// Untested agents that the new version was not offered to.
    pub left_untested: u32,
    /// Children, other than managers, whose wave has begun.
    pub opened: u32,
    /// Agents, those of managers below among them.
    pub agents: Agents,
    /// Those of them that are the routers of a hybrid.
    pub routers: Agents,
    /// Of a hybrid: children that owe the proof that a service is back.
    pub routers_undoing: u32,
}

impl Counts {
    fn slots(&mut self, assignment: &Assignment, gates: &Gates) -> [Option<&mut u32>; 13] {
        use model::ChildStatus as S;
        let status = match assignment.status {
            S::No => &mut self.no,
            S::Todo => &mut self.todo,
            S::Doing => &mut self.doing,
            S::Done => &mut self.done,
            S::Failed => &mut self.failed,
        };
        let outcome = match assignment.outcome {
            None => None,
            Some(Outcome::Succeeded) => Some(&mut self.succeeded),
            Some(Outcome::Failed) => Some(&mut self.outcome_failed),
            Some(Outcome::TimedOut) => Some(&mut self.timed_out),
            Some(Outcome::Unreachable) => Some(&mut self.unreachable),
            Some(Outcome::Lost) => Some(&mut self.lost),
            Some(Outcome::Undone) => Some(&mut self.undone),
            Some(Outcome::Untested) => Some(&mut self.untested),
            Some(Outcome::Excluded(_)) => Some(&mut self.excluded),
        };
        let undo = assignment.pending_undo();
        [
            Some(status),
            outcome,
            undo.map(|_| &mut self.undoing),
            undo.filter(|undo| undo.overdue).map(|_| &mut self.undo_overdue),
            assignment.is_awaited().then_some(&mut self.awaited),
            (assignment.is_awaited() && gates.admits(assignment)).then_some(&mut self.awaited_now),
            gates.is_in_play(assignment).then_some(&mut self.in_play),
            gates.waits_for(assignment).then_some(&mut self.behind),
            gates.is_trailing(assignment).then_some(&mut self.trailing),
            gates.takes_place(assignment).then_some(&mut self.in_progress),
            assignment.is_left_untested().then_some(&mut self.left_untested),
            (!assignment.is_whole() && gates.admits(assignment)).then_some(&mut self.opened),
            undo.filter(|undo| gates.levels.leads_services(undo.functions))
                .map(|_| &mut self.routers_undoing),
        ]
    }

    pub(in crate::release) fn add(&mut self, assignment: &Assignment, gates: &Gates) {
        self.slots(assignment, gates).into_iter().flatten().for_each(|count| *count += 1);
        self.agents.add(assignment.agents());
        if gates.levels.group_of(assignment.slot) == Group::Routers {
            self.routers.add(assignment.agents());
        }
    }

    pub(in crate::release) fn remove(&mut self, assignment: &Assignment, gates: &Gates) {
        self.slots(assignment, gates)
            .into_iter()
            .flatten()
            .for_each(|count| *count = count.saturating_sub(1));
        self.agents.remove(assignment.agents());
        if gates.levels.group_of(assignment.slot) == Group::Routers {
            self.routers.remove(assignment.agents());
        }
    }

    /// Everybody who began has failed, so that all of them are back at what they had before: nothing goes on by itself. Of a hybrid it is
    /// its routers that count.
    pub const fn are_back(&self, is_hybrid: bool) -> bool {
        let agents = if is_hybrid { &self.routers } else { &self.agents };
        self.awaited == 0 && agents.failed > 0 && agents.succeeded == 0
    }

    /// Whether some were left untested, nobody succeeded, and nobody ended badly; of a hybrid, whether that is so of its routers, without whom
    /// nobody gets what agents have deployed.
    pub fn are_untested(&self) -> bool {
        self.agents.are_untested() || self.routers.are_untested()
    }

    /// Whether some of a release without failures don't have the new version after all.
    pub const fn are_mixed(&self) -> bool {
        self.agents.untested > 0 || self.undone > 0
    }

    /// How many ended how, in the order of [`Outcome::NAMES`], so that none can be left out.
    pub const fn by_outcome(&self) -> [u32; Outcome::NAMES.len()] {
        [
            self.succeeded,
            self.outcome_failed,
            self.timed_out,
            self.unreachable,
            self.lost,
            self.undone,
            self.untested,
            self.excluded,
        ]
    }

    /// Agents that did not end well, as limits count them.
    pub const fn bad(&self) -> Bad {
        Bad::of(self.agents)
    }

    /// Agents that ended badly.
    pub const fn failures(&self) -> u32 {
        self.agents.bad()
    }
}
