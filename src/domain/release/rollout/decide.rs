//! What operators open in a release that is led, and what opens with what managers below said.

use super::{Command, shares, winner};
use crate::release::{
    change::Change,
    command::{Decision, LastSeen, NoReply, Reply},
    decide::checks::{another_fact, find, held, wrong},
    gate::{ALL_OPEN, Gate},
    lifecycle::{self, lacks_of, membership},
    liveness_check::{ManagerReports, ReportedLiveness},
    members, rollout,
    state::{Release, ReleaseState, Snapshot, State},
};
use model::{ChildKey, Now};

const ROUTERS_WAIT: &str = "its routers begin when its agents are done";

/// Decides what is asked of how far a release is open.
pub(in crate::release) fn decide(
    state: &State,
    seen: &dyn LastSeen,
    command: &Command,
    now: Now,
) -> Decision {
    match command {
        Command::Approve { release } => find(state, release).and_then(|release| approve(release, now)).into(),
        Command::Promote { release } => find(state, release).and_then(|release| promote(release, now)).into(),
        Command::PromoteToGate { release } => {
            find(state, release).and_then(|release| promote_to_gate(release, now)).into()
        }
        Command::ChooseWinner { release, variation } => winner::decide(state, release, variation, now).into(),
        Command::ChooseShares { release, shares } => shares::decide(state, release, shares, now).into(),
        Command::PromoteVariation { release, variation } => {
            promote_variation(state, release, variation, now).into()
        }
        Command::Extend { release } => extend(state, seen, release, now).into(),
        Command::Turnout(told) => liveness(state, seen, told, now),
    }
}

pub(in crate::release) fn approve(release: &Release, now: Now) -> Result<Decision, NoReply> {
    match release.state {
        ReleaseState::AwaitingApproval { .. } => Ok(Decision::new(
            vec![Change::Rollout(rollout::Change::Approved { release: release.key, now })],
            Reply::Done,
        )),
        // Said twice.
        ReleaseState::Running if release.gates.stand.reached.is_some_and(|reached| reached.approved) => {
            Ok(Decision::unchanged(Reply::Done))
        }
        ReleaseState::Planned
        | ReleaseState::Running
        | ReleaseState::Paused(_)
        | ReleaseState::RollingBack { .. }
        | ReleaseState::Over { .. } => Err(wrong(release, "it does not wait for an approval")),
    }
}

/// Whoever says so has seen enough: what is left of waves, barriers, soaks and approvals opens at once. Limits hold. What
/// came from the parent is promoted as far as the next gate that only that one opens.
pub(in crate::release) fn promote(release: &Release, now: Now) -> Result<Decision, NoReply> {
    if !release.state.is_going() {
        return Err(wrong(release, "only a release that runs can be promoted"));
    }
    another_fact(release)?;
    let (from, all) = (release.gates.stand.waves, release.turns.waves());
    // Nobody can want that calls go where no agent has proven anything: those are let through first.
    let agents = release.agents_first();
    let waves = match agents.and(release.turns.of_routers()) {
        Some(first) => first.max(from),
        None if release.keeps_waves_of_parent() => from,
        None => all,
    };
    let mut changes = Vec::new();
    let mut closed = release.gates.stand.level;
    if from < waves {
        changes.push(Change::Rollout(rollout::Change::WavesOpened {
            release: release.key,
            from,
            to: waves - 1,
            now,
        }));
        // Each new wave meets all barriers anew.
        closed = release.gates.levels.entry(release.turns.is_of_routers(waves - 1));
    }
    let level = agents.unwrap_or_else(|| release.signalled_from(closed));
    if closed < level {
        changes.push(Change::Rollout(rollout::Change::LevelOpened { release: release.key, level, now }));
    }
    let withheld =
        if level < ALL_OPEN { Some(Gate::Level(level)) } else { (waves < all).then_some(Gate::Wave(waves)) };
    match withheld.filter(|_| changes.is_empty()) {
        Some(_) if agents.is_some() => Err(wrong(release, ROUTERS_WAIT)),
        Some(gate) => Err(held(release, release.gate_name(gate))),
        None => {
            // What opens by itself is no act: that this is one is said beside it.
            if !changes.is_empty() {
                changes.push(Change::Lifecycle(lifecycle::Change::ActedOn { release: release.key }));
            }
            Ok(Decision::new(changes, Reply::Done))
        }
    }
}

/// Whoever says so has seen enough for the next step: the gate that comes next opens, whoever has yet to come to it, and whether or not it has
/// soaked and somebody approved. Limits hold, and so does what only the parent opens, or the agents of a hybrid.
pub(in crate::release) fn promote_to_gate(release: &Release, now: Now) -> Result<Decision, NoReply> {
    if !release.state.is_going() {
        return Err(wrong(release, "only a release that runs can be promoted"));
    }
    another_fact(release)?;
    let Some(gate) = release.next_gate() else { return Ok(Decision::unchanged(Reply::Done)) };
    if let Some(theirs) = release.agents_first() {
        let is_routers = match gate {
            Gate::Wave(wave) => release.turns.is_of_routers(wave),
            Gate::Level(level) => level >= theirs,
        };
        if is_routers {
            return Err(wrong(release, ROUTERS_WAIT));
        }
    }
    let is_parents = match gate {
        Gate::Wave(_) => release.keeps_waves_of_parent(),
        Gate::Level(level) => release.signalled_from(level) == level,
    };
    if is_parents {
        return Err(held(release, release.gate_name(gate)));
    }
    let acted = Change::Lifecycle(lifecycle::Change::ActedOn { release: release.key });
    Ok(Decision::new(vec![release.opening(gate, now), acted], Reply::Done))
}

fn promote_variation(state: &State, id: &str, variation: &str, now: Now) -> Result<Decision, NoReply> {
    let chosen = winner::decide(state, id, variation, now)?;
    let mut promoted = promote(find(state, id)?, now)?;
    promoted.changes.splice(0..0, chosen.changes);
    Ok(promoted)
}

impl Release {
    /// The level of the routers' first stage, while agents of a hybrid are to be done before.
    pub fn agents_first(&self) -> Option<u8> {
        let (stand, routers) = (&self.gates.stand, self.gates.levels.routers()?);
        let is_theirs = self.turns.of_routers().is_some_and(|first| stand.waves <= first);
        // They are tried again together.
        let again = stand.level <= routers && self.counts.behind > 0;
        (is_theirs || again).then_some(routers)
    }
}

/// Takes in whoever could take part by now and has no part. They begin with the first stage, after all others.
fn extend(state: &State, seen: &dyn LastSeen, id: &str, now: Now) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    let joined = newcomers(state, seen, release, now)?.into_iter().map(|(child, _)| {
        let lacks = lacks_of(state, release, child);
        Change::Members(members::Change::Joined { release: release.key, child, instead_of: None, now, lacks })
    });
    let mut changes: Vec<Change> = joined.collect();
    if !changes.is_empty() {
        changes.push(Change::Lifecycle(lifecycle::Change::ActedOn { release: release.key }));
    }
    Ok(Decision::new(changes, Reply::Done))
}

/// Whoever could take part by now and has no part, each with how many agents it has.
pub(in crate::release) fn newcomers(
    state: &Snapshot,
    seen: &dyn LastSeen,
    release: &Release,
    now: Now,
) -> Result<Vec<(ChildKey, u32)>, NoReply> {
    if !release.is_under_way() {
        return Err(wrong(release, "only a release that is under way can be extended"));
    }
    if release.keeps_waves_of_parent() {
        return Err(held(release, "who has a turn in which wave".to_owned()));
    }
    // To plan takes much longer than to see that there is nobody without a part.
    if state.children.iter().all(|(child, _)| release.assignments.contains_key(&child)) {
        return Ok(Vec::new());
    }
    let able = membership(state, seen, &release.strategy, &ReportedLiveness::new(), now);
    let new = able.members.iter().filter(|child| !release.assignments.contains_key(child));
    let agents = |child: &ChildKey| able.managers.get(child).map_or(1, |planned| planned.agents);
    Ok(new.map(|child| (*child, agents(child))).collect())
}

/// Managers below said who can take part: a release starts with it, or opens its next wave.
fn liveness(state: &State, seen: &dyn LastSeen, told: &ManagerReports, now: Now) -> Decision {
    let Some(release) = state.release(told.release).filter(|release| release.asking == Some(told.until))
    else {
        // They were late, or it was paused or ended meanwhile.
        return Decision::unchanged(Reply::Done);
    };
    let changes = match (&release.state, release.gates.stand.reached) {
        (ReleaseState::Planned, _) if state.is_its_turn(release.key) => {
            let membership = membership(state, seen, &release.strategy, &told.liveness_checks, now);
            vec![Change::Lifecycle(lifecycle::Change::Started { release: release.key, membership, now })]
        }
        (ReleaseState::Running, Some(reached)) if release.gate_reached() == Some(reached.gate) => {
            release.opened_with(state, seen, &told.liveness_checks, reached.gate, now)
        }
        // It is not what was asked about any more.
        (
            ReleaseState::Planned
            | ReleaseState::Running
            | ReleaseState::Paused(_)
            | ReleaseState::AwaitingApproval { .. }
            | ReleaseState::RollingBack { .. }
            | ReleaseState::Over { .. },
            _,
        ) => Vec::new(),
    };
    Decision::new(changes, Reply::Done)
}
