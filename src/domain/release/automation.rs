//! What the manager in charge does by itself: it judges limits, opens gates, and asks for approval.
//!
//! Looked at after every change of a release, and when a soak or an approval's time is over. One step at a time: what
//! follows from it is looked at next.

use std::fmt::Write as _;

use super::{
    assignment::Assignment,
    change::Change,
    clock::ReleaseMs,
    command::LastSeen,
    ending::{Cause, Ending},
    first_failure::Fault,
    gate::{Gate, Reached},
    lifecycle::{self, roll_back},
    pause::{Pause, PausedBy},
    rollout,
    state::{Bad, End, Release, ReleaseState, State},
};
use language::{Amount, ApprovalOf, Group, OnLimit, Order, Rollout, Round, Untested};
use model::{ChildKey, Now};

impl Release {
    /// The gate that nobody has to come to any more.
    pub fn gate_reached(&self) -> Option<Gate> {
        let stand = &self.gates.stand;
        if self.counts.awaited_now == 0 {
            let next = self.next_wave();
            return next.map(Gate::Wave);
        }
        let has_come = self.counts.behind == 0 || self.has_proof_early();
        let reached = self.counts.in_play > 0 && has_come && stand.level <= self.top();
        reached.then_some(Gate::Level(stand.level))
    }

    /// The gate that opens next, whether or not everybody has come to it; `None`: everything is open.
    pub fn next_gate(&self) -> Option<Gate> {
        let level = self.gates.stand.level;
        self.gate_reached()
            .or_else(|| (level <= self.top()).then_some(Gate::Level(level)))
            .or_else(|| self.next_wave().map(Gate::Wave))
    }

    /// Whether enough have passed their tests where that is all that the roll-out waits for. Managers are waited for: they
    /// say of all their agents together how they stand.
    fn has_proof_early(&self) -> bool {
        let Some(rollout) = self.strategy.rollout.as_ref().filter(|rollout| rollout.withholds_rollout())
        else {
            return false;
        };
        let level = self.gates.stand.level;
        level == self.top()
            && self.parent.is_none()
            && self.managers.is_empty()
            && !self.gates.levels.is_hybrid()
            && !self.wants_approval(Gate::Level(level))
            && !self.is_withheld(Gate::Level(level))
            && self.counts.in_play - self.counts.behind + self.counts.agents.succeeded
                >= rollout.must_succeed(self.agents_planned(), u32::MAX)
    }

    fn top(&self) -> u8 {
        self.gates.levels.rollout()
    }

    /// The first wave that is not open and in which somebody is awaited: one all of whose members are gone is passed
    /// over.
    pub(in crate::release) fn next_wave(&self) -> Option<u32> {
        let is_awaited = |child: &ChildKey| self.assignments.get(child).is_some_and(Assignment::is_awaited);
        (self.gates.stand.waves..self.turns.waves())
            .find(|wave| self.turns.between(*wave, wave + 1).iter().any(is_awaited))
    }

    /// When what is reached has soaked, or its approval is overdue; `MAX`: nothing is reached.
    pub fn gate_due(&self) -> ReleaseMs {
        let Some(rollout) = &self.strategy.rollout else { return ReleaseMs::MAX };
        let ms = |time: std::time::Duration| time.as_millis() as u64;
        match (&self.state, self.gates.stand.reached) {
            (ReleaseState::AwaitingApproval { since, .. }, _) => {
                let timeout = rollout.approval.as_ref().map_or(0, |approval| ms(approval.timeout));
                since.saturating_add(timeout)
            }
            (ReleaseState::Running, Some(reached)) if self.is_withheld(reached.gate) => ReleaseMs::MAX,
            (ReleaseState::Running, Some(reached)) => {
                reached.at.saturating_add(ms(soak(rollout, reached.gate)))
            }
            (ReleaseState::Running, None)
            | (
                ReleaseState::Planned
                | ReleaseState::Paused(_)
                | ReleaseState::RollingBack { .. }
                | ReleaseState::Over { .. },
                _,
            ) => ReleaseMs::MAX,
        }
    }

    /// What opens with a gate, in words: `wave 2 of 4`, `stage Second`, `the roll-out`.
    pub fn gate_name(&self, gate: Gate) -> String {
        match gate {
            Gate::Wave(wave) if self.gates.levels.is_hybrid() => {
                let group = if self.turns.is_of_routers(wave) { Group::Routers } else { Group::Agents };
                let (from, to) = self.turns.waves_of(group);
                let (number, of, group) = (wave + 1 - from.min(wave), to.saturating_sub(from), group.name());
                match self.strategy.rollout.as_ref().map(|rollout| &rollout.order) {
                    _ if of == 1 => format!("the {group}"),
                    Some(Order::LocationSequential { .. }) => {
                        format!("location {number} of {of} of the {group}")
                    }
                    Some(Order::Waves(_) | Order::Parallel | Order::GlobalIncremental) | None => {
                        format!("wave {number} of {of} of the {group}")
                    }
                }
            }
            Gate::Wave(wave) => {
                let (number, of) = (wave + 1, self.turns.waves());
                match self.strategy.rollout.as_ref().map(|rollout| &rollout.order) {
                    Some(Order::LocationSequential { .. }) => format!("location {number} of {of}"),
                    Some(Order::Waves(_) | Order::Parallel | Order::GlobalIncremental) | None => {
                        format!("wave {number} of {of}")
                    }
                }
            }
            Gate::Level(level) if self.gates.levels.is_hybrid() && self.gates.levels.is_rollout(level) => {
                format!("the roll-out of the {}", self.gates.levels.group_at(level).name())
            }
            Gate::Level(level) if level == self.top() => "the roll-out".to_owned(),
            Gate::Level(level) => {
                let stages = self.gates.levels.stages_at(level);
                let names: Vec<&str> =
                    stages.filter_map(|stage| Some(self.strategy.stages.get(stage)?.name.as_str())).collect();
                format!("stage {}", names.join(", "))
            }
        }
    }

    fn wants_approval(&self, gate: Gate) -> bool {
        match gate {
            Gate::Level(level) => self.gates.levels.wants_approval(level),
            Gate::Wave(_) => {
                let approval = self.strategy.rollout.as_ref().and_then(|rollout| rollout.approval.as_ref());
                approval.is_some_and(|approval| approval.of == ApprovalOf::Waves)
            }
        }
    }

    /// Whether those that were left untested get the new version now: nobody else is waited for, and somebody has passed.
    pub(super) fn rolls_out_untested(&self) -> bool {
        let wanted =
            self.strategy.rollout.as_ref().is_some_and(|rollout| rollout.untested == Untested::Rollout);
        let is_last = self.counts.awaited == 0 && self.is_running();
        wanted && is_last && self.counts.left_untested > 0 && self.counts.agents.succeeded > 0
    }

    /// Whether something else than time or an approval opens a gate: a verdict, or the parent.
    fn is_withheld(&self, gate: Gate) -> bool {
        self.wants_signal(gate) || self.awaits_verdict(gate)
    }

    /// What opens a gate.
    pub(super) fn opening(&self, gate: Gate, now: Now) -> Change {
        match gate {
            Gate::Wave(to) => {
                let from = self.gates.stand.waves;
                Change::Rollout(rollout::Change::WavesOpened { release: self.key, from, to, now })
            }
            Gate::Level(level) => {
                let level = self.gates.levels.barrier_from(level + 1);
                Change::Rollout(rollout::Change::LevelOpened { release: self.key, level, now })
            }
        }
    }
}

/// Where every wave waits only for the one before, it is the wave that soaks; else it is the stage.
fn soak(rollout: &Rollout, gate: Gate) -> std::time::Duration {
    match (&rollout.order, gate) {
        // Where all have their turn at once, the routers of a hybrid have a wave of their own.
        (_, Gate::Wave(_)) => rollout.soak,
        (Order::GlobalIncremental, Gate::Level(level)) if level > 0 => rollout.soak,
        (_, Gate::Level(_)) => std::time::Duration::ZERO,
    }
}

/// What follows for a release from `changes`, limits first.
pub(super) fn judge(state: &State, release: &Release, changes: &[&Change], now: Now) -> Vec<Change> {
    let Some(rollout) = &release.strategy.rollout else { return Vec::new() };
    if !release.state.is_going() {
        return Vec::new();
    }
    // Where the limits are not to stop it, the approval still has its time.
    if rollout.on_failure != OnLimit::Continue
        && let Some(passed) = passed(release)
    {
        let ending = evidence(state, release, &passed, changes);
        return match rollout.on_failure {
            OnLimit::Pause => {
                let pause = Pause::new(PausedBy::Limit, ending.text);
                vec![Change::Lifecycle(lifecycle::Change::Paused { release: release.key, pause, now })]
            }
            OnLimit::Rollback | OnLimit::Continue => roll_back(state, release, ending, End::RolledBack, now),
        };
    }
    if let ReleaseState::AwaitingApproval { what, .. } = &release.state
        && release.at(now) >= release.gate_due()
    {
        let reason = format!("nobody approved of {what} in time");
        return roll_back(state, release, Ending::new(Cause::Approval, reason), End::RolledBack, now);
    }
    Vec::new()
}

/// Brings a release one step towards its next gate, if it can.
pub(super) fn lead(state: &State, seen: &dyn LastSeen, release: &Release, now: Now) -> Vec<Change> {
    let Some(gate) = release.gate_reached().filter(|_| may_lead(release)) else {
        return step(state, release, now).into_iter().collect();
    };
    if !release.is_proven(gate) {
        let pause = Pause::new(PausedBy::Unproven, release.unproven_reason(gate));
        return vec![Change::Lifecycle(lifecycle::Change::Paused { release: release.key, pause, now })];
    }
    match step(state, release, now) {
        Some(change) if change == release.opening(gate, now) => match gate {
            Gate::Wave(_) => release.open_wave(state, seen, gate, now),
            Gate::Level(_) => vec![change],
        },
        other => other.into_iter().collect(),
    }
}

fn may_lead(release: &Release) -> bool {
    release.strategy.rollout.is_some() && release.state.is_going()
}

fn step(state: &State, release: &Release, now: Now) -> Option<Change> {
    let rollout = release.strategy.rollout.as_ref().filter(|_| may_lead(release))?;
    let is_asking = matches!(release.state, ReleaseState::AwaitingApproval { .. });
    let key = release.key;
    let Some(gate) = release.gate_reached() else {
        return release
            .gates
            .stand
            .reached
            .map(|_| Change::Rollout(rollout::Change::GateLeft { release: key }));
    };
    let wants_approval = release.wants_approval(gate);
    match release.gates.stand.reached {
        Some(reached) if reached.gate != gate => {
            Some(Change::Rollout(rollout::Change::GateLeft { release: key }))
        }
        None if soak(rollout, gate).is_zero()
            && !wants_approval
            && !release.is_withheld(gate)
            && !release.is_to_ask(state, gate) =>
        {
            Some(release.opening(gate, now))
        }
        None => Some(Change::Rollout(rollout::Change::GateReached { release: key, gate, now })),
        Some(_) if is_asking || release.at(now) < release.gate_due() => None,
        Some(Reached { approved: false, .. }) if wants_approval => {
            let what = release.gate_name(gate);
            Some(Change::Rollout(rollout::Change::ApprovalAsked { release: key, what, now }))
        }
        Some(_) => Some(release.opening(gate, now)),
    }
}

/// How near a release is to one of the limits of its strategy.
#[derive(Debug, Clone, Copy)]
pub struct Limited {
    /// As the strategy has it: `max_failed`.
    pub key: &'static str,
    pub limit: Amount,
    /// The limit in agents: so many may end like this.
    pub most: u32,
    /// Agents that did.
    pub count: u32,
    /// Those of them that somebody has accepted, by going on.
    pub accepted: u32,
    of: fn(Bad) -> u32,
}

impl Limited {
    pub const fn is_passed(&self) -> bool {
        self.count.saturating_sub(self.accepted) > self.most
    }
}

/// A limit by its name, and the agents it counts.
type Limit = (&'static str, Amount, fn(Bad) -> u32);

impl Release {
    /// How near it is to each limit of its strategy; none where nothing is led.
    pub fn limits(&self) -> impl Iterator<Item = Limited> {
        let planned = self.agents_planned();
        let (bad, accepted) = (self.counts.bad(), self.accepted);
        let of_rollout = |rollout: &Rollout| -> [Limit; 4] {
            [
                ("max_failed", rollout.max_failed, |bad| bad.failed),
                ("max_timed_out", rollout.max_timed_out, |bad| bad.timed_out),
                ("max_unreachable", rollout.max_unreachable, |bad| bad.unreachable),
                ("max_untested", rollout.max_untested, |bad| bad.untested),
            ]
        };
        let limits = self.strategy.rollout.as_ref().map(of_rollout);
        limits.into_iter().flatten().map(move |(key, limit, of)| {
            let most = limit.of(planned, Round::Down);
            Limited { key, limit, most, count: of(bad), accepted: of(accepted), of }
        })
    }
}

fn passed(release: &Release) -> Option<Limited> {
    release.limits().find(Limited::is_passed)
}

/// Which child it was, in which stage, with which numbers, and which limit: `agent-3 failed in stage Canary (errors
/// 12.5 %, median 31 ms): 2 failed, max_failed is 1`.
fn evidence(state: &State, release: &Release, passed: &Limited, changes: &[&Change]) -> Ending {
    let fault = Fault::last(state, release, changes, |outcome| (passed.of)(Bad::counting(outcome)) > 0);
    let mut text = String::new();
    if let Some(fault) = &fault {
        let _ = write!(text, "{}: ", fault.text());
    }
    let what = passed.key.trim_start_matches("max_").replace('_', " ");
    let _ = write!(text, "{} {what}", passed.count);
    if passed.accepted > 0 {
        let _ = write!(text, ", {} of them accepted before", passed.accepted);
    }
    let _ = write!(text, ", {} is {}", passed.key, passed.limit);
    if let Amount::Share(_) = passed.limit {
        let _ = write!(text, " ({})", passed.most);
    }
    match fault {
        Some(fault) => fault.ending(Cause::Limit, text),
        None => Ending::new(Cause::Limit, text),
    }
}
