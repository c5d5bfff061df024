//! Whether enough agents have proven a release for more to begin.

use crate::release::{
    gate::Gate,
    manager::{Agents, Planned},
    pause::{PausedBy, UNPROVEN},
    state::Release,
};
use language::Order;
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
        if self.parent.is_some() || self.gates.stand.waived {
            return true;
        }
        let succeeded = match (gate, &rollout.order) {
            (Gate::Wave(_), _) => self.counts.agents.succeeded,
            (Gate::Level(level), Order::Parallel | Order::GlobalIncremental)
                if level == self.gates.levels.rollout() =>
            {
                self.agents_ready().saturating_add(self.counts.agents.succeeded)
            }
            (
                Gate::Level(_),
                Order::Parallel
                | Order::GlobalIncremental
                | Order::LocationSequential { .. }
                | Order::Waves(_),
            ) => return true,
        };
        let planned = self.agents_planned();
        succeeded >= rollout.must_succeed(planned, u32::MAX)
            || succeeded >= rollout.must_succeed(planned, self.agents_opened())
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
        let must = rollout.map_or(1, |r| r.must_succeed(self.agents_planned(), self.agents_opened()));
        let succeeded = match gate {
            Gate::Wave(_) => self.counts.agents.succeeded,
            Gate::Level(_) => self.agents_ready().saturating_add(self.counts.agents.succeeded),
        };
        let (agents, have) = if succeeded == 1 { ("agent", "has") } else { ("agents", "have") };
        format!(
            "{UNPROVEN}{succeeded} {agents} {have} succeeded so far, {must} must before {}",
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
