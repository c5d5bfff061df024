//! What holds children back where the manager is in charge: waves that are not open yet, and barriers between stages.
//!
//! One mechanism leads all orders:
//!
//! | order | waves | barriers |
//! |---|---|---|
//! | `parallel` | one | those that `approval` names |
//! | `location_sequential` | each child its own, by distance | those that `approval` names |
//! | `global_incremental` | one | before every level but the first |
//! | `waves` | as the strategy says | those that `approval` names |
//!
//! In every order there is one after each stage that is judged by an analysis. In `parallel` there is one before the roll-out
//! where more than one must have succeeded by then.
//!
//! Stages have *levels*: the longest way that leads to them from the first. A barrier stands before a level, so it means
//! the same for children that jump and for those that fail forward. In a straight strategy the level of a stage is its
//! place, and the roll-out is one level above the last stage.
//!
//! A barrier withholds the signal that ends the stage before it: children go on testing while others catch up, while it
//! soaks and while an approval is awaited, so all move together, and the base version runs only for seconds in
//! between. One whose stage was cut is held before its next offer. Each new wave meets all barriers anew.
//!
//! In a hybrid release, of functions and services, agents go first (see [`language::Group`]): its first waves are theirs, and those from
//! [`WavePlan::of_routers`] on the routers'. So a router is offered nothing, not even a share of 0, before each agent is done
//! and enough of them have succeeded. The levels of the routers' stages lie above the agents' roll-out, and a barrier stands
//! before the first of them: where a release that is over is tried again, agents and routers begin anew at once, and
//! only that keeps these back. A wave of routers begins behind it.
//!
//! Invariants:
//! - no end signal leads past a closed barrier, and no offer above one is handed out;
//! - a child of a wave that is not open is offered nothing and has no deadline.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    assignment::{Assignment, FunctionSet, StepIndex},
    clock::ReleaseMs,
    manager::Planned,
    offer::Unit,
};
use language::{Action, ApprovalOf, Group, Rollout, StageKind, Strategy};
use model::{ChildKey, StageStatus};

/// The level of a barrier that no child ever comes to: all are open.
pub const ALL_OPEN: u8 = u8::MAX;

/// A set of levels; there are at most 65, see [`language::MAX_STAGES`].
type LevelSet = u128;

/// The levels of a strategy, and which of them have a barrier before them. Made once for each release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HybridLevels {
    stages: Vec<u8>,
    /// For each stage the level of what follows its success; 0: nothing does.
    after: Vec<u8>,
    rollout: u8,
    /// Of a hybrid.
    halves: Option<Halves>,
    barriers: LevelSet,
    approvals: LevelSet,
    /// Those that only the parent opens.
    signalled: LevelSet,
    /// Most children that have something to do at once; `None`: all.
    pub at_once: Option<u32>,
}

/// The levels of a hybrid, in which the agents' lie below the routers'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Halves {
    /// So many subjects, the first, are agents'.
    functions: usize,
    /// The level of the agents' roll-out.
    rollout: u8,
    /// That of the routers' first stage.
    routers: u8,
    /// Where a wave of routers begins: the first barrier that it meets.
    entry: u8,
}

impl HybridLevels {
    /// `from_parent`: a parent's signal ends every stage, also one that leads to nothing.
    pub fn of(strategy: &Strategy, from_parent: bool) -> Self {
        let mut stages = stage_levels(strategy);
        let reachable = strategy.reachable();
        let halves = strategy.is_hybrid().then(|| part(strategy, &mut stages, &reachable));
        let last = stages.iter().zip(&reachable).filter(|(_, reachable)| **reachable);
        let rollout = last.map(|(level, _)| *level).max().unwrap_or_default() + 1;
        let of_group = |subject: usize| match &halves {
            Some(halves) if subject < halves.functions => halves.rollout,
            Some(_) | None => rollout,
        };
        let after = strategy.stages.iter().map(|stage| match stage.on_success {
            Action::Stage(next) => stages.get(next).copied().unwrap_or_default(),
            Action::Rollout => of_group(stage.subject),
            Action::Rollback if from_parent || stage.analysis.is_some() => of_group(stage.subject),
            Action::Rollback => 0,
        });
        let after: Vec<u8> = after.collect();
        let bit = |level: u8| 1 << level;
        let rollouts = bit(rollout) | halves.map_or(0, |halves| bit(halves.rollout));
        let approval = strategy.rollout.as_ref().and_then(|rollout| rollout.approval.as_ref());
        let approvals = match approval.map(|approval| &approval.of) {
            None | Some(ApprovalOf::Waves) => 0,
            Some(ApprovalOf::Rollout) => rollouts,
            Some(ApprovalOf::Stages(named)) => {
                named.iter().filter_map(|stage| stages.get(*stage)).fold(0, |set, level| set | bit(*level))
            }
        };
        let global = strategy.rollout.as_ref().is_some_and(|rollout| rollout.order.has_barriers());
        let all = if global { (1..=rollout).fold(0, |set, level| set | bit(level)) } else { 0 };
        let signalled = if from_parent { waits_for_signal(strategy, &reachable, &after) } else { 0 };
        let judged = strategy.stages.iter().zip(&after).zip(&reachable);
        let judged = judged.filter(|((stage, _), reachable)| **reachable && stage.analysis.is_some());
        let judged = judged.fold(0, |set, ((_, after), _)| set | bit(*after));
        let at_once = strategy.rollout.as_ref().and_then(|rollout| rollout.max_in_progress);
        // Elsewhere there is one anyway, or the waves prove it.
        let proof =
            strategy.rollout.as_ref().filter(|_| !from_parent).is_some_and(Rollout::withholds_rollout);
        let proof = if proof { rollouts } else { 0 };
        let barriers = all | approvals | signalled | judged | proof;
        let mut levels =
            Self { stages, after, rollout, halves: None, barriers, approvals, signalled, at_once };
        levels.halves = halves.map(|halves| {
            // The barrier before them has been opened by the wave; somebody may be asked all the same.
            let asks = (approvals | judged) & bit(halves.routers) != 0;
            let entry = levels.barrier_from(halves.routers + u8::from(!asks));
            levels.barriers |= bit(halves.routers);
            Halves { entry, ..halves }
        });
        levels
    }

    /// Whose a piece of the release is.
    pub fn group_of(&self, slot: StepIndex) -> Group {
        let Some(halves) = &self.halves else { return Group::Agents };
        let is_below = match slot.stage_index() {
            Some(stage) => self.of_stage(stage) < halves.routers,
            None => slot.rollout_index().is_some_and(|subject| subject < halves.functions),
        };
        if is_below { Group::Agents } else { Group::Routers }
    }

    /// Whether some of these subjects of a hybrid are services.
    pub fn leads_services(&self, subjects: FunctionSet) -> bool {
        let services = self.halves.map(|halves| u64::MAX.checked_shl(halves.functions as u32).unwrap_or(0));
        services.is_some_and(|services| subjects.0 & services != 0)
    }

    /// Whether agents and routers take part.
    pub const fn is_hybrid(&self) -> bool {
        self.halves.is_some()
    }

    /// The first barrier that a wave meets.
    pub fn entry(&self, of_routers: bool) -> u8 {
        match &self.halves {
            Some(halves) if of_routers => halves.entry,
            Some(_) | None => self.barrier_from(0),
        }
    }

    /// The level of the routers' first stage, where agents take part besides.
    pub fn routers(&self) -> Option<u8> {
        self.halves.map(|halves| halves.routers)
    }

    /// Whose barrier this is: who has to come to it. That before the routers' first stage is the agents'.
    pub fn group_at(&self, level: u8) -> Group {
        match &self.halves {
            Some(halves) if level > halves.routers => Group::Routers,
            Some(_) | None => Group::Agents,
        }
    }

    /// Whether a group's roll-out is at this level.
    pub fn is_rollout(&self, level: u8) -> bool {
        level == self.rollout || self.halves.is_some_and(|halves| level == halves.rollout)
    }

    /// Where a child is. One with a whole strategy in hand walks through the levels.
    pub fn level_of(&self, assignment: &Assignment) -> u8 {
        match assignment.piece() {
            Unit::Whole => self.of_stage(assignment.slot.stage_index().unwrap_or_default()),
            piece => self.of_piece(piece),
        }
    }

    pub fn of_stage(&self, stage: usize) -> u8 {
        self.stages.get(stage).copied().unwrap_or_default()
    }

    fn of_piece(&self, piece: Unit) -> u8 {
        match piece {
            Unit::Whole => 0,
            Unit::Stage(stage) => self.of_stage(usize::from(stage)),
            Unit::Rollout(subject) => match &self.halves {
                Some(halves) if usize::from(subject) < halves.functions => halves.rollout,
                Some(_) | None => self.rollout,
            },
        }
    }

    /// The level of the roll-out; of a hybrid that of the routers, which is the last.
    pub const fn rollout(&self) -> u8 {
        self.rollout
    }

    /// Whether somebody must say yes before a barrier opens.
    pub const fn wants_approval(&self, level: u8) -> bool {
        level < ALL_OPEN && self.approvals & (1 << level) != 0
    }

    /// The stages of a level, as indices into the strategy.
    pub fn stages_at(&self, level: u8) -> impl Iterator<Item = usize> + '_ {
        self.stages.iter().enumerate().filter(move |(_, of)| **of == level).map(|(stage, _)| stage)
    }

    /// The first barrier before this level or a higher one.
    pub fn barrier_from(&self, level: u8) -> u8 {
        (level..=self.rollout).find(|level| self.barriers & (1 << level) != 0).unwrap_or(ALL_OPEN)
    }

    /// The first barrier before this level or a higher one of those that only the parent opens.
    pub fn signalled_from(&self, level: u8) -> u8 {
        (level..=self.rollout).find(|level| self.signalled & (1 << level) != 0).unwrap_or(ALL_OPEN)
    }

    /// Whether a barrier stands between a stage and what follows its success.
    pub fn has_barrier_after(&self, stage: usize) -> bool {
        self.barrier_from(self.of_stage(stage).saturating_add(1)) <= self.after_stage(stage)
    }

    /// The level of what follows the success of what runs; 0: nothing does.
    fn after(&self, slot: StepIndex) -> u8 {
        slot.stage_index().and_then(|stage| self.after.get(stage).copied()).unwrap_or_default()
    }

    /// The level of what follows the success of a stage; 0: nothing does.
    pub fn after_stage(&self, stage: usize) -> u8 {
        self.after(StepIndex::stage(stage))
    }

    /// Whether a child may be told to end this while the barriers below `open` are open.
    pub fn may_end(&self, slot: StepIndex, open: u8) -> bool {
        self.after(slot) < open
    }
}

/// The barriers that the parent opens: after each stage that waits for its signal.
fn waits_for_signal(strategy: &Strategy, reachable: &[bool], after: &[u8]) -> LevelSet {
    let stages = strategy.stages.iter().zip(reachable).zip(after);
    let waiting = stages
        .filter(|((stage, reachable), _)| **reachable && stage.kind == StageKind::WaitForSignal)
        .map(|(_, after)| *after);
    waiting.filter(|after| *after > 0).fold(0, |set, level| set | 1 << level)
}

/// Moves the levels of the routers' stages above the agents' roll-out.
fn part(strategy: &Strategy, stages: &mut [u8], reachable: &[bool]) -> Halves {
    let is_routers = |at: usize| strategy.group_of_stage(at) == Group::Routers;
    let of_agents = (0..stages.len()).filter(|at| !is_routers(*at) && reachable.get(*at) == Some(&true));
    let rollout = of_agents.filter_map(|at| stages.get(at)).max().copied().unwrap_or_default() + 1;
    let routers = rollout + 1;
    let theirs = stages.iter_mut().enumerate().filter(|(at, _)| is_routers(*at));
    theirs.for_each(|(_, level)| *level += routers);
    Halves { functions: strategy.functions.len(), rollout, routers, entry: routers }
}

/// The longest way from the first stage to each; a valid graph has no loop, and the bound keeps a hand-made one from
/// running away.
fn stage_levels(strategy: &Strategy) -> Vec<u8> {
    let mut levels = vec![0_u8; strategy.stages.len()];
    let reachable = strategy.reachable();
    for _ in 0..strategy.stages.len() {
        let mut moved = false;
        for (at, stage) in strategy.stages.iter().enumerate().filter(|(at, _)| reachable[*at]) {
            for action in [stage.on_success, stage.on_failure] {
                if let Action::Stage(next) = action
                    && let Some(before) = levels.get(next).copied().filter(|level| *level <= levels[at])
                {
                    levels[next] = (levels[at] + 1).max(before);
                    moved = true;
                }
            }
        }
        if !moved {
            break;
        }
    }
    levels
}

/// What is waited for before the next children, or the next stage, may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The wave of this number, from 0.
    Wave(u32),
    /// The barrier before this level.
    Level(u8),
}

/// A gate that nobody has to come to any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    pub gate: Gate,
    pub at: ReleaseMs,
    pub approved: bool,
}

/// How far a release has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutProgress {
    /// Open waves; those from this number on are not.
    pub waves: u32,
    /// When the last of them was opened.
    pub opened: ReleaseMs,
    /// The lowest barrier that is closed; what is below may begin.
    pub level: u8,
    pub reached: Option<Reached>,
    /// An operator goes on although too few have succeeded; until the next gate opens.
    pub waived: bool,
}

/// The gates of a release: a copy is cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates {
    pub levels: Arc<HybridLevels>,
    pub stand: RolloutProgress,
}

impl Gates {
    /// As a release begins.
    pub fn new(strategy: &Strategy, from_parent: bool) -> Self {
        let levels = HybridLevels::of(strategy, from_parent);
        let waves = strategy.from_parent.as_ref().and_then(|said| said.waves).unwrap_or(1);
        let stand =
            RolloutProgress { waves, opened: 0, level: levels.barrier_from(0), reached: None, waived: false };
        Self { levels: Arc::new(levels), stand }
    }

    /// Whether its wave has begun.
    pub const fn admits(&self, assignment: &Assignment) -> bool {
        assignment.wave < self.stand.waves
    }

    /// Whether a child that has not fetched its next offer must wait for a gate.
    pub fn holds(&self, assignment: &Assignment) -> bool {
        !self.admits(assignment) || self.levels.level_of(assignment) >= self.stand.level
    }

    /// Whether a child may be told to end what it runs.
    pub fn may_end(&self, slot: StepIndex) -> bool {
        self.levels.may_end(slot, self.stand.level)
    }

    /// Whether the next barrier has to wait for this child: it takes part, and has not come there.
    pub fn waits_for(&self, assignment: &Assignment) -> bool {
        let is_awaited = assignment.rare().joined.is_none_or(|from| from <= self.stand.level);
        is_awaited && self.is_in_play(assignment) && !self.is_there(assignment)
    }

    /// The highest level that children may run, where a barrier stands before each.
    pub fn front(&self) -> u8 {
        self.stand.level.min(self.levels.rollout() + 1).saturating_sub(1)
    }

    /// Whether it takes part, and is still below what others may run.
    pub fn is_trailing(&self, assignment: &Assignment) -> bool {
        self.is_in_play(assignment) && self.levels.level_of(assignment) < self.front()
    }

    /// Whether it takes part at present.
    pub fn is_in_play(&self, assignment: &Assignment) -> bool {
        self.admits(assignment) && !assignment.status.is_over()
    }

    /// Whether its next offer is shown only once it has a place.
    pub fn queues(&self, assignment: &Assignment) -> bool {
        self.levels.at_once.is_some() && assignment.needs_place()
    }

    /// Whether it takes one of the places. One that has come to a barrier only goes on testing: if it kept its place,
    /// the others would never come.
    pub fn takes_place(&self, assignment: &Assignment) -> bool {
        assignment.is_admitted() && self.is_in_play(assignment) && !self.is_there(assignment)
    }

    fn is_there(&self, assignment: &Assignment) -> bool {
        if self.levels.level_of(assignment) >= self.stand.level {
            return true;
        }
        // Who was told to end for want of calls has come to nothing yet.
        let is_idle = assignment.is_told_idle();
        let waits = assignment.fetched && assignment.stage_status >= StageStatus::SuccessWaiting;
        let is_ready = waits && !is_idle;
        is_ready && !self.may_end(assignment.slot)
    }
}

/// Members in the order of their turns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WavePlan {
    /// Empty where all are in the first wave.
    order: Arc<Vec<ChildKey>>,
    /// After each wave, how many members have had their turn. Empty where all are in the first wave.
    ends: Vec<u32>,
    /// See [`Self::of_routers`].
    routers: Option<u32>,
}

impl WavePlan {
    /// From members and the wave of each (nothing said means the first), and the waves in which managers among them have
    /// more of their agents' turns.
    pub fn new(members: &[ChildKey], waves: &[u32], managers: &BTreeMap<ChildKey, Planned>) -> Self {
        let later = managers
            .iter()
            .flat_map(|(child, planned)| planned.quotas.iter().skip(1).map(|(wave, _)| (*wave, *child)));
        let mut order: Vec<(u32, ChildKey)> =
            waves.iter().copied().zip(members.iter().copied()).chain(later).collect();
        let Some(last) = order.iter().map(|(wave, _)| *wave).max().filter(|last| *last > 0) else {
            return Self::default();
        };
        order.sort_unstable();
        let ends = (0..=last).map(|wave| order.partition_point(|(of, _)| *of <= wave) as u32);
        let ends = ends.collect();
        let order = Arc::new(order.into_iter().map(|(_, child)| child).collect());
        Self { order, ends, routers: None }
    }

    /// Of a hybrid: the first wave of routers; those before it are of agents.
    pub const fn of_routers(&self) -> Option<u32> {
        self.routers
    }

    /// Notes which wave of a hybrid is the first of routers; `None`: no router takes part, or it is no hybrid.
    #[must_use]
    pub fn parted(self, routers: Option<u32>) -> Self {
        Self { routers, ..self }
    }

    /// Whether a wave is one of routers, in a hybrid.
    pub fn is_of_routers(&self, wave: u32) -> bool {
        self.routers.is_some_and(|first| wave >= first)
    }

    /// The waves of a group, from one number to below another; of a release that is no hybrid, all.
    pub fn waves_of(&self, group: Group) -> (u32, u32) {
        let first = self.routers.unwrap_or_else(|| self.waves());
        match group {
            Group::Agents => (0, first),
            Group::Routers => (first, self.waves()),
        }
    }

    /// Lets one more agent of a hybrid have its turn after all other agents.
    pub fn join_agents(&mut self, child: ChildKey) -> u32 {
        let last = self.routers.map_or(0, |first| first.saturating_sub(1));
        let Some(at) = self.ends.get(last as usize).copied() else { return 0 };
        Arc::make_mut(&mut self.order).insert(at as usize, child);
        self.ends.iter_mut().skip(last as usize).for_each(|end| *end += 1);
        last
    }

    /// Lets one more have its turn after all others: with the last wave, or in one of its own.
    pub fn join(&mut self, members: &[ChildKey], child: ChildKey, alone: bool) -> u32 {
        if self.order.is_empty() && !alone {
            return 0;
        }
        if self.order.is_empty() {
            self.order = Arc::new(members.to_vec());
            self.ends = vec![members.len() as u32];
        }
        Arc::make_mut(&mut self.order).push(child);
        let all = self.order.len() as u32;
        match self.ends.last_mut() {
            Some(last) if !alone => *last = all,
            _ => self.ends.push(all),
        }
        self.waves() - 1
    }

    /// Waves in all.
    pub fn waves(&self) -> u32 {
        (self.ends.len() as u32).max(1)
    }

    /// The members of the waves from one number to below another.
    pub fn between(&self, from: u32, to: u32) -> &[ChildKey] {
        let end = |waves: u32| match waves.checked_sub(1) {
            None => 0,
            Some(last) => self.ends.get(last as usize).map_or(self.order.len(), |end| *end as usize),
        };
        self.order.get(end(from)..end(to)).unwrap_or_default()
    }
}
