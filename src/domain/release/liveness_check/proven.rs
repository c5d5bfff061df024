//! Whether enough agents have proven a release for more to begin.

use crate::release::{
    gate::Gate,
    manager::{Agents, Planned},
    pause::{PausedBy, UNPROVEN},
    state::Release,
};
use language::{Group, Order};
use model::ChildKey;

impl Release {
    /// Agents whose turn has come.
    pub fn agents_opened(&self) -> u32 {
        let open = self.gates.stand.waves;
        let has_begun = |child: &ChildKey| self.assignments.get(child).is_some_and(|part| part.wave < open);
        let of_manager = |(child, planned): (&ChildKey, &Planned)| match planned.quotas.is_empty() {
            true if has_begun(child) => planned.agents,
            true => 0,
            false => planned.done_before(open),
        };
        self.managers.iter().map(of_manager).fold(self.counts.opened, u32::saturating_add)
    }

    /// Whether enough agents have proven the release for this gate to open. What comes from above is judged above.
    pub(in crate::release) fn is_proven(&self, gate: Gate) -> bool {
        let Some(rollout) = &self.strategy.rollout else { return true };
        if self.parent.is_some() || (self.gates.stand.waived && !self.lets_routers_begin(gate)) {
            return true;
        }
        let group = self.group_at(gate);
        let succeeded = match (gate, &rollout.order) {
            (Gate::Wave(_), _) => self.succeeded_of(group),
            // Agents that are tried again with the routers.
            (Gate::Level(level), _) if self.gates.levels.routers() == Some(level) => self.succeeded_of(group),
            (Gate::Level(level), Order::Parallel | Order::GlobalIncremental)
                if self.gates.levels.is_rollout(level) =>
            {
                self.agents_ready().saturating_add(self.succeeded_of(group))
            }
            (
                Gate::Level(_),
                Order::Parallel
                | Order::GlobalIncremental
                | Order::LocationSequential { .. }
                | Order::Waves(_),
            ) => return true,
        };
        let (planned, opened) = (self.planned_of(group), self.opened_of(group));
        succeeded >= rollout.must_succeed(planned, u32::MAX)
            || succeeded >= rollout.must_succeed(planned, opened)
    }

    /// Whether routers of a hybrid begin behind a gate. That agents have proven what they send calls to, nobody can waive.
    fn lets_routers_begin(&self, gate: Gate) -> bool {
        match gate {
            // The first of their waves may be passed over.
            Gate::Wave(wave) => {
                let begun = self.turns.is_of_routers(self.gates.stand.waves.saturating_sub(1));
                self.turns.is_of_routers(wave) && !begun
            }
            Gate::Level(level) => self.counts.behind == 0 && self.gates.levels.routers() == Some(level),
        }
    }

    /// Who has to have proven the release before a gate opens. Before the first wave of routers it is the agents.
    pub(in crate::release) fn group_at(&self, gate: Gate) -> Group {
        match gate {
            Gate::Level(level) => self.gates.levels.group_at(level),
            Gate::Wave(wave) if self.turns.is_of_routers(wave) && !self.lets_routers_begin(gate) => {
                Group::Routers
            }
            Gate::Wave(_) => Group::Agents,
        }
    }

    /// Agents that have succeeded, or of a hybrid those of a group: routers are counted as agents are.
    fn succeeded_of(&self, group: Group) -> u32 {
        let of_routers = self.counts.routers.succeeded;
        match group {
            Group::Routers => of_routers,
            Group::Agents => self.counts.agents.succeeded.saturating_sub(of_routers),
        }
    }

    /// Agents for whom it was planned, or of a hybrid those of a group.
    pub(in crate::release) fn planned_of(&self, group: Group) -> u32 {
        let (from, to) = self.turns.waves_of(group);
        if self.gates.levels.is_hybrid() { self.agents_between(from, to) } else { self.agents_planned() }
    }

    fn opened_of(&self, group: Group) -> u32 {
        let (from, to) = self.turns.waves_of(group);
        if self.gates.levels.is_hybrid() {
            self.agents_between(from, to.min(self.gates.stand.waves).max(from))
        } else {
            self.agents_opened()
        }
    }

    /// Agents of a hybrid whose turn is in the waves from one number, with which a group begins, to below another.
    fn agents_between(&self, from: u32, to: u32) -> u32 {
        let (mut managers, mut below) = (0, 0_u32);
        let theirs = self.managers.iter().filter(|(child, _)| (from..to).contains(&self.first_wave(**child)));
        for (child, planned) in theirs {
            // As often as it has a turn, with the agents that have theirs then.
            let turns = planned.quotas.iter().filter(|(wave, _)| *wave < to).count().max(1);
            managers += turns;
            below = below.saturating_add(match planned.quotas.is_empty() {
                true if self.assignments.contains_key(child) => planned.agents,
                true => 0,
                false => planned.done_before(to),
            });
        }
        let turns = self.turns.between(from, to).len().saturating_sub(managers) as u32;
        turns.saturating_add(below)
    }

    /// Agents that have come to the next barrier.
    fn agents_ready(&self) -> u32 {
        let (mut managers, mut below) = (0, 0_u32);
        let parts = self.managers.keys().filter_map(|child| self.assignments.get(child));
        for part in parts.filter(|part| self.gates.is_in_play(part) && !self.gates.waits_for(part)) {
            let Some(manager) = part.whole() else { continue };
            // One that says nothing of its agents has those with which it was planned.
            let said = manager.reported;
            let all = if said == Agents::default() { manager.planned.agents } else { said.participants };
            managers += 1;
            below = below.saturating_add(all.saturating_sub(said.bad()).saturating_sub(said.untested));
        }
        let there = self.counts.in_play.saturating_sub(self.counts.behind);
        there.saturating_sub(managers).saturating_add(below)
    }

    /// Why it is paused that nobody has proven it: `unproven: 0 agents have succeeded so far, 1 must before wave 2 of 3`.
    pub(in crate::release) fn unproven_reason(&self, gate: Gate) -> String {
        let rollout = self.strategy.rollout.as_ref();
        let group = self.group_at(gate);
        let must = rollout.map_or(1, |r| r.must_succeed(self.planned_of(group), self.opened_of(group)));
        let succeeded = match gate {
            Gate::Level(level) if self.gates.levels.routers() != Some(level) => {
                self.agents_ready().saturating_add(self.succeeded_of(group))
            }
            Gate::Wave(_) | Gate::Level(_) => self.succeeded_of(group),
        };
        let (agents, have) = match (group, self.gates.levels.is_hybrid(), succeeded) {
            (Group::Routers, true, 1) => ("router", "has"),
            (Group::Routers, true, _) => ("routers", "have"),
            (_, _, 1) => ("agent", "has"),
            (_, _, _) => ("agents", "have"),
        };
        let so =
            if self.lets_routers_begin(gate) { "; try agents again, for this can't be waived" } else { "" };
        format!(
            "{UNPROVEN}{succeeded} {agents} {have} succeeded so far, {must} must before {}{so}",
            self.gate_name(gate)
        )
    }

    /// Paused because nobody has proven it: to resume is to go on all the same.
    pub fn is_unproven(&self) -> bool {
        self.state.pause().is_some_and(|pause| pause.by == PausedBy::Unproven)
    }

    /// Whether nobody took part in what ends now: nobody was there, all were taken out, or managers had nobody.
    pub(in crate::release) fn is_without_participants(&self) -> bool {
        let [_succeeded, failed, timed_out, unreachable, lost, undone, _untested, _excluded] =
            self.counts.by_outcome();
        let agents = self.counts.agents;
        failed + timed_out + unreachable + lost + undone == 0
            && agents.succeeded == 0
            && agents.bad() == 0
            && agents.untested == 0
    }
}
