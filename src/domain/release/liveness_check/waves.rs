//! What opens a wave, and who has their turn in those that are not open: who is heard of first, who is silent last.

use super::{ReportedLiveness, SilenceLimits, of_child};
use crate::{
    plan::{Filled, Liveness, cut},
    release::{
        assignment::Assignment,
        change::Change,
        command::LastSeen,
        gate::{Gate, Gates, WavePlan},
        manager::Planned,
        rollout,
        state::{Release, ReleaseState, State},
    },
};
use language::{Amount, Group, Order};
use model::{ChildKey, Now};

impl Release {
    /// What opens the next wave now: at first those are asked who have to be.
    pub(in crate::release) fn open_wave(
        &self,
        state: &State,
        seen: &dyn LastSeen,
        gate: Gate,
        now: Now,
    ) -> Vec<Change> {
        if self.is_to_ask(state, gate) {
            match self.asking {
                None => {
                    return vec![Change::Rollout(rollout::Change::TurnoutAsked { release: self.key, now })];
                }
                Some(until) if now.served_ms < until => return Vec::new(),
                Some(_) => {}
            }
        }
        self.opened_with(state, seen, &ReportedLiveness::new(), gate, now)
    }

    /// What opens a wave with what was said.
    pub(in crate::release) fn opened_with(
        &self,
        state: &State,
        seen: &dyn LastSeen,
        told: &ReportedLiveness,
        gate: Gate,
        now: Now,
    ) -> Vec<Change> {
        let planned = self.planned_anew(state, seen, told, None, now);
        // Who is left comes together, last.
        let all_silent = planned.as_ref().is_some_and(|planned| planned.only_silent);
        let mut changes: Vec<Change> = planned.and_then(|planned| planned.change).into_iter().collect();
        let opening = match gate {
            Gate::Wave(_) if all_silent || !changes.is_empty() => {
                let (from, to) = (self.gates.stand.waves, self.group_to_come().0);
                Change::Rollout(rollout::Change::WavesOpened { release: self.key, from, to, now })
            }
            gate => self.opening(gate, now),
        };
        changes.push(opening);
        changes
    }
}

impl Release {
    /// The waves that are not open as the parent counts them now; nothing where that changes none.
    pub(in crate::release) fn waves_anew(
        &self,
        state: &State,
        seen: &dyn LastSeen,
        told: &ReportedLiveness,
        amounts: Option<&[Amount]>,
        now: Now,
    ) -> Option<Change> {
        self.planned_anew(state, seen, told, amounts, now)?.change
    }
}

/// Somebody whose turn is yet to come.
struct WaitingRelease {
    child: ChildKey,
    wave: u32,
    liveness: Liveness,
    /// Of a manager, how many have had their turn.
    done: u32,
}

struct Anew {
    /// `None`: everybody keeps their wave.
    change: Option<Change>,
    only_silent: bool,
}

impl Release {
    /// The waves that are not open, with those first who are heard of.
    fn planned_anew(
        &self,
        state: &State,
        seen: &dyn LastSeen,
        told: &ReportedLiveness,
        amounts: Option<&[Amount]>,
        now: Now,
    ) -> Option<Anew> {
        let order = &self.strategy.rollout.as_ref()?.order;
        let mut waiting = self.waiting(state, seen, told, now);
        let silent: u32 = waiting.iter().map(|one| one.liveness.silent).fold(0, u32::saturating_add);
        // The usual case: everybody who is to come is heard of.
        if silent == 0 && amounts.is_none() && self.left_out == 0 {
            return None;
        }
        waiting.sort_by_key(|one| (one.wave, one.child));
        let places = match order {
            Order::Waves(own) => self.in_waves(&waiting, amounts.unwrap_or(own)),
            Order::LocationSequential { .. } => self.one_by_one(&waiting),
            Order::Parallel | Order::GlobalIncremental => return None,
        };
        let only_silent = waiting.iter().all(|one| one.liveness.live == 0);
        Some(Anew { change: self.moved(&waiting, places, silent, now), only_silent })
    }

    /// Everybody whose turn, or the turn of some of whose agents, is in a wave that is not open.
    fn waiting(
        &self,
        state: &State,
        seen: &dyn LastSeen,
        told: &ReportedLiveness,
        now: Now,
    ) -> Vec<WaitingRelease> {
        let (open, limits) = (self.group_to_come().0, SilenceLimits::of_strategy(&self.strategy));
        let end = self.group_to_come().1;
        let waits = |(child, part): (&ChildKey, &Assignment)| {
            if part.status.is_over() || part.wave < open || part.wave >= end {
                return None;
            }
            let Some(planned) = self.managers.get(child) else {
                let liveness = of_child(state, seen, &ReportedLiveness::new(), limits, *child, now);
                return Some(WaitingRelease { child: *child, wave: part.wave, liveness, done: 0 });
            };
            let done = planned.done_before(open);
            let said = of_child(state, seen, told, limits, *child, now);
            // Those that are not live any more come last, as those that are silent: it has them in its own last wave.
            let left = planned.agents.saturating_sub(done);
            let live = said.live.saturating_sub(done).min(left);
            let liveness = Liveness { live, silent: left - live };
            Some(WaitingRelease { child: *child, wave: part.wave, liveness, done })
        };
        self.assignments.iter().filter_map(waits).collect()
    }

    /// For each, the waves and how many of its agents have had their turn after each of them.
    fn in_waves(&self, waiting: &[WaitingRelease], amounts: &[Amount]) -> Vec<Vec<(u32, u32)>> {
        let (open, end) = self.group_to_come();
        let group = self.group_of_wave(open);
        let sum = |of: fn(&Liveness) -> u32| {
            waiting.iter().map(|one| of(&one.liveness)).fold(0, u32::saturating_add)
        };
        let (live, left) = (sum(|liveness| liveness.live), sum(|liveness| liveness.all()));
        let total = self.planned_of(group).max(left);
        let passed = open - self.turns.waves_of(group).0.min(open);
        let rest = amounts.get(passed as usize..).filter(|rest| !rest.is_empty()).unwrap_or(&[Amount::WHOLE]);
        let keeps_empty = !self.opens_its_waves();
        let waves = cut(rest, Filled { total, live, so_far: total - left }, keeps_empty);
        let last = waves.len().saturating_sub(1);
        let mut before = total - left;
        let place = |one: &WaitingRelease| {
            let Liveness { live, silent } = one.liveness;
            let from = before;
            before = before.saturating_add(live);
            let mut quotas: Vec<(u32, u32)> = Vec::new();
            for (at, wave) in waves.iter().enumerate() {
                let of = wave.agents.saturating_sub(from).min(live);
                let of = one.done + if at == last { live + silent } else { of };
                if of > quotas.last().map_or(one.done, |(_, agents)| *agents) {
                    quotas.push(((open + at as u32).min(end - 1), of));
                }
            }
            if quotas.is_empty() {
                // A manager without agents has its turn all the same.
                quotas.push(((open + last as u32).min(end - 1), one.done));
            }
            quotas
        };
        waiting.iter().map(place).collect()
    }

    /// Each of those that are heard of has a turn of its own, and the others one together, last.
    fn one_by_one(&self, waiting: &[WaitingRelease]) -> Vec<Vec<(u32, u32)>> {
        let (open, end) = self.group_to_come();
        let is_live = |one: &WaitingRelease| one.liveness.live > 0 || one.liveness.all() == 0;
        let last = open + waiting.iter().filter(|one| is_live(one)).count() as u32;
        let mut next = open;
        let place = |one: &WaitingRelease| {
            let wave = if is_live(one) { next } else { last };
            next += u32::from(is_live(one));
            vec![(wave.min(end - 1), one.liveness.all())]
        };
        waiting.iter().map(place).collect()
    }

    fn moved(
        &self,
        waiting: &[WaitingRelease],
        places: Vec<Vec<(u32, u32)>>,
        silent: u32,
        now: Now,
    ) -> Option<Change> {
        let open = self.gates.stand.waves;
        let mut moved = Vec::new();
        let mut managers = Vec::new();
        for (one, quotas) in waiting.iter().zip(places) {
            let Some((wave, _)) = quotas.first().copied() else { continue };
            if wave != one.wave {
                moved.push((one.child, wave));
            }
            let Some(planned) = self.managers.get(&one.child).filter(|planned| !planned.quotas.is_empty())
            else {
                continue;
            };
            let had = planned.quotas.iter().copied().filter(|(wave, _)| *wave < open);
            let anew = Planned { agents: planned.agents, quotas: had.chain(quotas).collect() };
            if anew != *planned {
                managers.push((one.child, anew));
            }
        }
        let is_news = !moved.is_empty() || !managers.is_empty() || silent != self.left_out;
        is_news.then_some(Change::Rollout(rollout::Change::WavesPlanned {
            release: self.key,
            moved,
            managers,
            left_out: silent,
            now,
        }))
    }

    /// The first wave that is not open of the group whose turn is next, and the first that isn't this group's any more. Waves of the agents of a
    /// hybrid stay before those of its routers, however they are filled.
    fn group_to_come(&self) -> (u32, u32) {
        let open = self.gates.stand.waves;
        match self.turns.of_routers() {
            Some(first) if self.next_wave().is_some_and(|next| next < first) => (open, first),
            Some(first) => (open.max(first), u32::MAX),
            None => (open, u32::MAX),
        }
    }

    fn group_of_wave(&self, wave: u32) -> Group {
        if self.turns.is_of_routers(wave) { Group::Routers } else { Group::Agents }
    }

    /// Of a hybrid: the first wave in which routers have, or had, their turn.
    pub fn first_of_routers(&self) -> Option<u32> {
        if !self.gates.levels.is_hybrid() {
            return None;
        }
        let is_router = |part: &Assignment| part.group(&self.strategy) == Group::Routers;
        let routers = self.assignments.iter().filter(|(_, part)| is_router(part));
        routers.map(|(child, _)| self.first_wave(*child)).min()
    }

    /// The wave in which a member had, or has, its first turn.
    pub fn first_wave(&self, child: ChildKey) -> u32 {
        let first = self.managers.get(&child).and_then(|planned| planned.quotas.first());
        let of_part = || self.assignments.get(&child).map_or(0, |part| part.wave);
        first.map_or_else(of_part, |(wave, _)| *wave)
    }
}

impl Release {
    /// Lets others have their turn in the waves that are not open. Who is concerned has no part in what is counted of those
    /// that are.
    pub(in crate::release) fn replan_waves(
        &mut self,
        moved: &[(ChildKey, u32)],
        managers: &[(ChildKey, Planned)],
        left_out: u32,
    ) {
        for (child, planned) in managers {
            if let Some(whole) = self.assignments.get_mut(child).and_then(Assignment::whole_mut) {
                whole.planned = planned.clone();
            }
            self.managers.insert(*child, planned.clone());
        }
        for (child, wave) in moved {
            if let Some(part) = self.assignments.get_mut(child) {
                part.wave = *wave;
            }
        }
        let order: Vec<ChildKey> = self.assignments.keys().copied().collect();
        let waves: Vec<u32> = order.iter().map(|child| self.first_wave(*child)).collect();
        let routers = self.first_of_routers();
        self.turns = WavePlan::new(&order, &waves, self.managers.by_key()).parted(routers);
        self.left_out = left_out;
    }

    /// A member in the wave of this one that has not acted yet.
    pub fn untouched(&self, like: &Assignment) -> Assignment {
        let fresh = Assignment::new(self.started_at);
        Assignment { wave: like.wave, facts: like.facts, ..fresh }
    }

    /// As it was submitted, but for who had a part in it, and for shares that somebody chose.
    pub(in crate::release) fn plan_again(&mut self) {
        self.state = ReleaseState::Planned;
        (self.started, self.ended, self.asking, self.ending) = (None, None, None, None);
        self.gates = Gates::new(&self.strategy, self.parent.is_some());
        self.facts.retain(|dated| dated.fact.shares().is_some());
        for part in self.assignments.values_mut() {
            part.facts = self.facts.len() as u16;
        }
        self.joined = 0;
        self.recount();
    }
}
