//! Who can take part, as far as is known, and who is asked.

use super::{
    ReportedLiveness,
    silence::{SilenceLimit, SilenceLimits},
};
use crate::{
    plan::{self, Liveness},
    release::{
        command::LastSeen,
        gate::Gate,
        manager::Planned,
        next_action,
        state::{Release, ReleaseState, Snapshot, State},
    },
};
use model::{ChildKey, FEATURE_QUESTIONS, Now};

/// Whether a child has nothing in hand and was not heard of for too long.
fn is_silent(state: &Snapshot, seen: &dyn LastSeen, child: ChildKey, limit: SilenceLimit, now: Now) -> bool {
    let last = seen.last_call(child);
    last.is_some_and(|last| limit.is_passed(last, now.served_ms)) && !next_action::has_in_hand(state, child)
}

/// How many agents of a child can take part, as far as is known.
pub fn of_child(
    state: &Snapshot,
    seen: &dyn LastSeen,
    told: &ReportedLiveness,
    limits: SilenceLimits,
    child: ChildKey,
    now: Now,
) -> Liveness {
    let Some(record) = state.children.get(child) else { return Liveness::default() };
    if let Some(said) = told.get(&child) {
        return *said;
    }
    let agents = record.counted_agents();
    if is_silent(state, seen, child, limits.of_child(record), now) {
        Liveness { live: 0, silent: agents }
    } else {
        Liveness { live: agents, silent: 0 }
    }
}

/// Whether a child is a manager that answers questions, and has somebody to answer for.
pub fn is_askable(state: &Snapshot, child: ChildKey) -> bool {
    state.children.get(child).is_some_and(|record| {
        let profile = record.profile.as_deref();
        record.kind().is_manager()
            && record.agents > 0
            && profile.is_some_and(|profile| profile.capabilities.has(FEATURE_QUESTIONS))
    })
}

impl Release {
    /// The managers to be asked before this opens: those whose agents, or more of them, have their turn in it or later.
    pub fn to_ask(&self, state: &Snapshot) -> Vec<ChildKey> {
        let open = self.gates.stand.waves;
        let has_more = |(child, planned): &(&ChildKey, &Planned)| {
            self.assignments.get(child).is_some_and(|part| !part.status.is_over())
                && planned.done_before(open) < planned.agents
        };
        let managers = self.managers.iter().filter(has_more).map(|(child, _)| *child);
        managers.filter(|child| is_askable(state, *child)).collect()
    }

    /// Whether the next wave can only be opened with what others say, and that is not known yet.
    pub(in crate::release) fn is_to_ask(&self, state: &State, gate: Gate) -> bool {
        matches!(gate, Gate::Wave(_)) && self.opens_its_waves() && !self.to_ask(state).is_empty()
    }

    /// Waves are opened here.
    pub(super) fn opens_its_waves(&self) -> bool {
        self.strategy.from_parent.as_ref().is_none_or(|said| said.waves.is_none())
    }

    /// Managers to be asked before it starts: those that would take part, and may.
    pub fn managers_to_plan(&self, state: &Snapshot) -> Vec<ChildKey> {
        let askable = state.children.iter().map(|(key, _)| key).filter(|key| is_askable(state, *key));
        let askable: Vec<ChildKey> = askable.collect();
        let area = self.strategy.target.as_ref().and_then(|target| target.area.as_ref());
        let cover =
            area.filter(|_| !askable.is_empty()).map(|area| state.children.areas().cover(&area.polygons()));
        let fits = |key: &ChildKey| {
            matches!(plan::why_not(&self.strategy, state, cover.as_ref(), *key), Some(Ok(_)))
        };
        askable.into_iter().filter(fits).collect()
    }

    /// Those whose answer it waits for.
    pub fn asked(&self, state: &Snapshot) -> Vec<ChildKey> {
        if self.state == ReleaseState::Planned { self.managers_to_plan(state) } else { self.to_ask(state) }
    }
}
