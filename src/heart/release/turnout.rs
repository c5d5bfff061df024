//! Who can take part when a wave opens, and who has their turn then.
//!
//! A plan counts agents that a manager below says it has; how many of them can take part only that manager knows. So the
//! release is planned, and each wave opened, with what its managers answer:
//!
//! ```text
//! time to start, or a wave's gate reached ─▶ Change::TurnoutAsked ─▶ the shell asks ─▶ Command::Turnout ─▶ start | open
//!                                                     └─▶ no answer within [`ASKED_FOR`] ─▶ "at most": as they were planned
//! ```
//!
//! Who has nothing in hand anywhere and was not heard of for `silent_after` is silent. When a wave opens its places go to
//! those who are live, in their order, and who is silent comes last: in the last wave, whenever they call again.
//!
//! Invariants: what has begun keeps its wave; nobody has their turn earlier because somebody was asked twice; that
//! something is being asked is not stored: after a restart it is asked again.

use std::{collections::BTreeMap, time::Duration};

use super::{
    assignment::Assignment,
    change::Change,
    command::Seen,
    gate::{Gate, Gates, Turns},
    manager::{Agents, Planned},
    pause::{PausedBy, UNPROVEN},
    rollout,
    state::{Release, ReleaseState, Snapshot, State},
    turn,
};
use crate::{
    plan,
    plan::{Filled, Turnout, cut},
};
use language::{Amount, Order};
use model::{ChildKey, ChildKind, FEATURE_QUESTIONS, Now, ReleaseKey};

/// So long managers below have to say who can take part. After that they are planned with as many as they said they have.
pub const ASKED_FOR: Duration = Duration::from_secs(2);

/// What managers said; one that is missing said nothing.
pub type Turnouts = BTreeMap<ChildKey, Turnout>;

/// What managers said of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub release: ReleaseKey,
    /// The [`Release::asking`] that is answered.
    pub until: u64,
    pub turnouts: Turnouts,
}

/// Whether a child has nothing in hand and was not heard of for so long.
pub fn is_silent(state: &Snapshot, seen: &dyn Seen, child: ChildKey, silent_after_ms: u64, now: Now) -> bool {
    let last = seen.last_call(child);
    last.is_some_and(|last| now.served_ms.saturating_sub(last) >= silent_after_ms)
        && !turn::has_in_hand(state, child)
}

/// How many agents of a child can take part, as far as is known.
pub fn of_child(
    state: &Snapshot,
    seen: &dyn Seen,
    told: &Turnouts,
    silent_after_ms: u64,
    child: ChildKey,
    now: Now,
) -> Turnout {
    let Some(record) = state.children.get(child) else { return Turnout::default() };
    if let Some(said) = told.get(&child) {
        return *said;
    }
    let agents = record.counted_agents();
    if is_silent(state, seen, child, silent_after_ms, now) {
        Turnout { live: 0, silent: agents }
    } else {
        Turnout { live: agents, silent: 0 }
    }
}

/// Whether a child is a manager that answers questions, and has somebody to answer for.
pub fn is_askable(state: &Snapshot, child: ChildKey) -> bool {
    state.children.get(child).is_some_and(|record| {
        let profile = record.profile.as_deref();
        record.kind() == ChildKind::Rm
            && record.agents > 0
            && profile.is_some_and(|profile| profile.capabilities.has(FEATURE_QUESTIONS))
    })
}

impl Release {
    /// After so much silence a child is silent.
    pub fn silent_after_ms(&self) -> u64 {
        self.strategy.rollout.as_ref().map_or(u64::MAX, language::Rollout::silent_after_ms)
    }

    /// The managers to be asked before this opens: those whose agents, or more of them, have their turn in it or later.
    pub fn to_ask(&self, state: &Snapshot) -> Vec<ChildKey> {
        let open = self.gates.stand.waves;
        let has_more = |(child, planned): &(&ChildKey, &Planned)| {
            self.assignments.get(child).is_some_and(|part| !part.status.is_over())
                && done(planned, open) < planned.agents
        };
        let managers = self.managers.iter().filter(has_more).map(|(child, _)| *child);
        managers.filter(|child| is_askable(state, *child)).collect()
    }

    /// Whether the next wave can only be opened with what others say, and that is not known yet.
    pub(super) fn is_to_ask(&self, state: &State, gate: Gate) -> bool {
        matches!(gate, Gate::Wave(_)) && self.opens_its_waves() && !self.to_ask(state).is_empty()
    }

    /// Waves are opened here.
    fn opens_its_waves(&self) -> bool {
        self.strategy.from_parent.as_ref().is_none_or(|said| said.waves.is_none())
    }

    /// What opens the next wave now: at first those are asked who have to be.
    pub(super) fn open_wave(&self, state: &State, seen: &dyn Seen, gate: Gate, now: Now) -> Vec<Change> {
        if self.is_to_ask(state, gate) {
            match self.asking {
                None => {
                    return vec![Change::Rollout(rollout::Change::TurnoutAsked { release: self.key, now })];
                }
                Some(until) if now.served_ms < until => return Vec::new(),
                Some(_) => {}
            }
        }
        self.opened_with(state, seen, &Turnouts::new(), gate, now)
    }

    /// What opens a wave with what was said.
    pub(super) fn opened_with(
        &self,
        state: &State,
        seen: &dyn Seen,
        told: &Turnouts,
        gate: Gate,
        now: Now,
    ) -> Vec<Change> {
        let planned = self.planned_anew(state, seen, told, None, now);
        // Who is left comes together, last.
        let all_silent = planned.as_ref().is_some_and(|planned| planned.only_silent);
        let mut changes: Vec<Change> = planned.and_then(|planned| planned.change).into_iter().collect();
        let opening = match gate {
            Gate::Wave(_) if all_silent || !changes.is_empty() => {
                let from = self.gates.stand.waves;
                Change::Rollout(rollout::Change::WavesOpened { release: self.key, from, to: from, now })
            }
            gate => self.opening(gate, now),
        };
        changes.push(opening);
        changes
    }
}

impl Release {
    /// The waves that are not open as the parent counts them now; nothing where that changes none.
    pub(super) fn waves_anew(
        &self,
        state: &State,
        seen: &dyn Seen,
        told: &Turnouts,
        amounts: Option<&[Amount]>,
        now: Now,
    ) -> Option<Change> {
        self.planned_anew(state, seen, told, amounts, now)?.change
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

    /// Whether nobody took part in what ends now: nobody was there, all were taken out, or managers had nobody.
    pub(super) fn is_without_participants(&self) -> bool {
        let counts = &self.counts;
        let outcomes =
            counts.outcome_failed + counts.timed_out + counts.unreachable + counts.lost + counts.undone;
        outcomes == 0
            && counts.agents.succeeded == 0
            && counts.agents.bad() == 0
            && counts.agents.untested == 0
    }
}

/// How many of a manager's agents have had their turn in the waves below `open`.
fn done(planned: &Planned, open: u32) -> u32 {
    planned.quotas.iter().take_while(|(wave, _)| *wave < open).last().map_or(0, |(_, agents)| *agents)
}

/// Somebody whose turn is yet to come.
struct WaitingRelease {
    child: ChildKey,
    wave: u32,
    turnout: Turnout,
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
        seen: &dyn Seen,
        told: &Turnouts,
        amounts: Option<&[Amount]>,
        now: Now,
    ) -> Option<Anew> {
        let order = &self.strategy.rollout.as_ref()?.order;
        let mut waiting = self.waiting(state, seen, told, now);
        let silent: u32 = waiting.iter().map(|one| one.turnout.silent).fold(0, u32::saturating_add);
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
        let only_silent = waiting.iter().all(|one| one.turnout.live == 0);
        Some(Anew { change: self.moved(&waiting, places, silent, now), only_silent })
    }

    /// Everybody whose turn, or the turn of some of whose agents, is in a wave that is not open.
    fn waiting(&self, state: &State, seen: &dyn Seen, told: &Turnouts, now: Now) -> Vec<WaitingRelease> {
        let (open, silent_after_ms) = (self.gates.stand.waves, self.silent_after_ms());
        let waits = |(child, part): (&ChildKey, &Assignment)| {
            if part.status.is_over() || part.wave < open {
                return None;
            }
            let Some(planned) = self.managers.get(child) else {
                let turnout = of_child(state, seen, &Turnouts::new(), silent_after_ms, *child, now);
                return Some(WaitingRelease { child: *child, wave: part.wave, turnout, done: 0 });
            };
            let done = done(planned, open);
            let said = of_child(state, seen, told, silent_after_ms, *child, now);
            // Those that are not live any more come last, as those that are silent: it has them in its own last wave.
            let left = planned.agents.saturating_sub(done);
            let live = said.live.saturating_sub(done).min(left);
            let turnout = Turnout { live, silent: left - live };
            Some(WaitingRelease { child: *child, wave: part.wave, turnout, done })
        };
        self.assignments.iter().filter_map(waits).collect()
    }

    /// For each, the waves and how many of its agents have had their turn after each of them.
    fn in_waves(&self, waiting: &[WaitingRelease], amounts: &[Amount]) -> Vec<Vec<(u32, u32)>> {
        let open = self.gates.stand.waves;
        let sum =
            |of: fn(&Turnout) -> u32| waiting.iter().map(|one| of(&one.turnout)).fold(0, u32::saturating_add);
        let (live, left) = (sum(|turnout| turnout.live), sum(|turnout| turnout.all()));
        let total = self.agents_planned().max(left);
        let rest = amounts.get(open as usize..).filter(|rest| !rest.is_empty()).unwrap_or(&[Amount::WHOLE]);
        let keeps_empty = !self.opens_its_waves();
        let waves = cut(rest, Filled { total, live, so_far: total - left }, keeps_empty);
        let last = waves.len().saturating_sub(1);
        let mut before = total - left;
        let place = |one: &WaitingRelease| {
            let Turnout { live, silent } = one.turnout;
            let from = before;
            before = before.saturating_add(live);
            let mut quotas: Vec<(u32, u32)> = Vec::new();
            for (at, wave) in waves.iter().enumerate() {
                let of = wave.agents.saturating_sub(from).min(live);
                let of = one.done + if at == last { live + silent } else { of };
                if of > quotas.last().map_or(one.done, |(_, agents)| *agents) {
                    quotas.push((open + at as u32, of));
                }
            }
            if quotas.is_empty() {
                // A manager without agents has its turn all the same.
                quotas.push((open + last as u32, one.done));
            }
            quotas
        };
        waiting.iter().map(place).collect()
    }

    /// Each of those that are heard of has a turn of its own, and the others one together, last.
    fn one_by_one(&self, waiting: &[WaitingRelease]) -> Vec<Vec<(u32, u32)>> {
        let open = self.gates.stand.waves;
        let is_live = |one: &WaitingRelease| one.turnout.live > 0 || one.turnout.all() == 0;
        let last = open + waiting.iter().filter(|one| is_live(one)).count() as u32;
        let mut next = open;
        let place = |one: &WaitingRelease| {
            let wave = if is_live(one) { next } else { last };
            next += u32::from(is_live(one));
            vec![(wave, one.turnout.all())]
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

    /// The wave in which a member had, or has, its first turn.
    pub fn first_wave(&self, child: ChildKey) -> u32 {
        let first = self.managers.get(&child).and_then(|planned| planned.quotas.first());
        let of_part = || self.assignments.get(&child).map_or(0, |part| part.wave);
        first.map_or_else(of_part, |(wave, _)| *wave)
    }

    /// Agents whose turn has come.
    pub fn agents_opened(&self) -> u32 {
        let open = self.gates.stand.waves;
        let has_begun = |child: &ChildKey| self.assignments.get(child).is_some_and(|part| part.wave < open);
        let of_manager = |(child, planned): (&ChildKey, &Planned)| match planned.quotas.is_empty() {
            true if has_begun(child) => planned.agents,
            true => 0,
            false => done(planned, open),
        };
        self.managers.iter().map(of_manager).fold(self.counts.opened, u32::saturating_add)
    }

    /// Whether enough agents have proven the release for this gate to open. What comes from above is judged above.
    pub(super) fn is_proven(&self, gate: Gate) -> bool {
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
            (Gate::Level(_), _) => return true,
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
    pub(super) fn unproven_reason(&self, gate: Gate) -> String {
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
}

impl Release {
    /// Lets others have their turn in the waves that are not open. Who is concerned has no part in what is counted of those
    /// that are.
    pub(super) fn replan_waves(
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
        self.turns = Turns::new(&order, &waves, self.managers.by_key());
        self.left_out = left_out;
    }

    /// A member in the wave of this one that has not acted yet.
    pub fn untouched(&self, like: &Assignment) -> Assignment {
        let fresh = Assignment::new(self.started_at);
        Assignment { wave: like.wave, facts: like.facts, ..fresh }
    }

    /// As it was submitted, but for who had a part in it.
    pub(super) fn plan_again(&mut self) {
        self.state = ReleaseState::Planned;
        (self.started, self.ended, self.asking, self.ending) = (None, None, None, None);
        self.gates = Gates::new(&self.strategy, self.parent.is_some());
        self.facts.clear();
        for part in self.assignments.values_mut() {
            part.facts = 0;
        }
        self.joined = 0;
        self.recount();
    }
}
