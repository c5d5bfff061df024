//! A child that is a manager itself: what it is told, and how its agents are counted.
//!
//! It is handed one offer with the whole strategy, walks the graph for its own children, and reports the stages of the
//! success path. Where the release has waves its agents may be spread over several: then it is handed an offer for each
//! wave in which more of them have their turn, and each continues the one before.
//!
//! Invariants:
//! - an agent counts as one; a manager as what it last reported of its agents, at least as one bad agent if it itself failed,
//!   and as all agents it was planned with if it itself was not heard of;
//! - what is told of limits are numbers of agents, so that nobody below has to know who else takes part.
//!
//! Deliberately not here: how a release from above is led (`parent`), the text itself (`language::render_full`).

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    assignment::{Assignment, FunctionSet, ReleaseMs, Whole},
    gate::Levels,
    offer::{OfferName, Piece},
    state::Release,
};
use language::{Amount, FromParent, OnConflict, OnLimit, Order, Rollout, Round, Stage, StageKind, Strategy};
use model::{ChildKey, Exclusion, Outcome, steps};

/// Agents by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Agents {
    /// For whom it was planned.
    pub participants: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Not heard of in time, or their result was lost.
    pub timed_out: u32,
    pub unreachable: u32,
    /// Neither failed nor succeeded, for want of calls. A manager that knows nothing of it says nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub untested: u32,
    /// They may run what was taken back.
    pub unconfirmed: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Agents {
    fn numbers(&mut self) -> [&mut u32; 7] {
        [
            &mut self.participants,
            &mut self.succeeded,
            &mut self.failed,
            &mut self.timed_out,
            &mut self.unreachable,
            &mut self.untested,
            &mut self.unconfirmed,
        ]
    }

    pub fn add(&mut self, mut other: Self) {
        for (sum, more) in self.numbers().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_add(*more);
        }
    }

    pub fn remove(&mut self, mut other: Self) {
        for (sum, less) in self.numbers().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_sub(*less);
        }
    }

    /// Whether some were left untested, nobody succeeded, and nobody ended badly.
    pub const fn are_untested(&self) -> bool {
        self.untested > 0 && self.succeeded == 0 && self.bad() == 0
    }

    /// Those that ended badly.
    pub const fn bad(&self) -> u32 {
        self.failed.saturating_add(self.timed_out).saturating_add(self.unreachable)
    }
}

/// A child manager as it was planned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Planned {
    /// Agents below it.
    pub agents: u32,
    /// The waves (from 0) in which more of them have their turn, ascending, and how many have had it then. Empty: all in
    /// one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<(u32, u32)>,
}

/// The managers that take part in a release. How many agents they have together is asked with every change of the release,
/// so it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Managers {
    planned: Arc<BTreeMap<ChildKey, Planned>>,
    agents: u64,
}

impl Managers {
    pub fn get(&self, child: &ChildKey) -> Option<&Planned> {
        self.planned.get(child)
    }

    /// Takes one in, or plans it otherwise.
    pub fn insert(&mut self, child: ChildKey, planned: Planned) {
        self.agents += u64::from(planned.agents);
        let before = Arc::make_mut(&mut self.planned).insert(child, planned);
        self.agents -= before.map_or(0, |before| u64::from(before.agents));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ChildKey, &Planned)> {
        self.planned.iter().inspect(|_| steps::take(1))
    }

    pub fn keys(&self) -> impl Iterator<Item = &ChildKey> {
        self.iter().map(|(child, _)| child)
    }

    pub fn len(&self) -> usize {
        self.planned.len()
    }

    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    pub fn by_key(&self) -> &BTreeMap<ChildKey, Planned> {
        &self.planned
    }

    /// Agents below all of them.
    pub fn agents(&self) -> u32 {
        u32::try_from(self.agents).unwrap_or(u32::MAX)
    }
}

impl FromIterator<(ChildKey, Planned)> for Managers {
    fn from_iter<T: IntoIterator<Item = (ChildKey, Planned)>>(all: T) -> Self {
        let mut managers = Self::default();
        all.into_iter().for_each(|(child, planned)| managers.insert(child, planned));
        managers
    }
}

/// Names, in the answer to a poll and among a child's capabilities, that a manager can be told to try those of its agents
/// again that ended badly.
pub const FEATURE_RETRY: &str = "retry";

impl Assignment {
    /// How its agents are counted.
    pub fn agents(&self) -> Agents {
        let Some(manager) = self.whole() else {
            // Another counts for it, or it counts for nobody.
            let stands_in =
                matches!(self.outcome, Some(Outcome::Excluded(Exclusion::Successor | Exclusion::Replaced)));
            let mut agents = Agents { participants: u32::from(!stands_in), ..Agents::default() };
            agents.count(self.outcome, 1);
            agents.unconfirmed = u32::from(self.owes_overdue());
            return agents;
        };
        let all = manager.planned.agents.max(1);
        let mut agents = Agents { participants: manager.planned.agents, ..manager.reported };
        match self.outcome {
            Some(Outcome::Failed) if agents.bad() == 0 => agents.failed = 1,
            Some(Outcome::TimedOut | Outcome::Lost | Outcome::Unreachable) => {
                agents = Agents { participants: agents.participants, ..Agents::default() };
                agents.count(self.outcome, all);
            }
            _ => {}
        }
        if self.owes_overdue() {
            agents.unconfirmed = all;
        }
        agents
    }

    /// Whether it owes an undo for which the release waits no longer.
    pub(super) fn owes_overdue(&self) -> bool {
        self.pending_undo().is_some_and(|undo| undo.overdue)
    }
}

impl Agents {
    fn count(&mut self, outcome: Option<Outcome>, agents: u32) {
        match outcome {
            Some(Outcome::Succeeded) => self.succeeded = agents,
            Some(Outcome::Failed) => self.failed = agents,
            Some(Outcome::TimedOut | Outcome::Lost) => self.timed_out = agents,
            Some(Outcome::Unreachable) => self.unreachable = agents,
            Some(Outcome::Untested) => self.untested = agents,
            None | Some(Outcome::Undone | Outcome::Excluded(_)) => {}
        }
    }
}

/// What each stage is to a manager below: it waits for the signal where a barrier stands after it; where the manager is not
/// in charge, as the developer wrote.
fn kind(strategy: &Strategy, levels: &Levels, at: usize, stage: &Stage) -> StageKind {
    if strategy.rollout.is_none() {
        return stage.kind;
    }
    if levels.has_barrier_after(at) { StageKind::WaitForSignal } else { StageKind::AB }
}

impl Release {
    /// The strategy as it is handed to a manager below, but for the target, which is to be clipped to its area.
    pub fn strategy_for(&self, assignment: &Assignment) -> Strategy {
        let mut strategy = Strategy::clone(&self.strategy);
        for (at, stage) in strategy.stages.iter_mut().enumerate() {
            stage.kind = kind(&self.strategy, &self.gates.levels, at, stage);
            // Judged where the release was planned.
            stage.analysis = None;
        }
        strategy.id = self.id.clone();
        strategy.on_conflict = OnConflict::Queue;
        strategy.forward_up = false;
        strategy.from_parent = None;
        if let (Some(rollout), Some(manager)) = (&self.strategy.rollout, assignment.whole()) {
            strategy.rollout = Some(self.rollout_for(rollout, &manager.planned));
            strategy.from_parent = Some(self.said_beside(rollout, assignment, manager));
        }
        strategy
    }

    fn said_beside(&self, rollout: &Rollout, assignment: &Assignment, manager: &Whole) -> FromParent {
        let waves = matches!(rollout.order, Order::Waves(_)).then(|| manager.waves_open(assignment.wave));
        let before = |attempt| OfferName::of(Piece::Whole, attempt).id(self.id.as_str());
        FromParent {
            waves,
            continues: manager.continues.map(before),
            undoes: None,
            retries: manager.retries,
            interim: self.strategy.interims(),
            classes: self.strategy.is_classed(),
        }
    }

    /// The block for a manager below. What needs somebody's approval, and what is to soak over the whole fleet, stays here.
    fn rollout_for(&self, rollout: &Rollout, planned: &Planned) -> Rollout {
        let all = self.agents_planned();
        let count = |limit: Amount| Amount::Count(limit.of(all, Round::Down));
        let order = match &rollout.order {
            Order::Waves(_) => Order::Waves(waves_for(planned)),
            other => other.clone(),
        };
        Rollout {
            soak: match order {
                Order::LocationSequential { .. } => rollout.soak,
                _ => std::time::Duration::ZERO,
            },
            order,
            max_failed: count(rollout.max_failed),
            max_timed_out: count(rollout.max_timed_out),
            max_unreachable: count(rollout.max_unreachable),
            // Who is untested runs the base version: there is no hurry, and an earlier build doesn't know the key.
            max_untested: Amount::WHOLE,
            no_calls: rollout.no_calls,
            untested: rollout.untested,
            on_failure: match rollout.on_failure {
                OnLimit::Rollback => OnLimit::Rollback,
                OnLimit::Pause | OnLimit::Continue => OnLimit::Continue,
            },
            // Judged where the release was planned.
            min_succeeded: None,
            // Each manager sees the silence of its own agents.
            silent_after: rollout.silent_after,
            max_in_progress: rollout.max_in_progress.map(|most| share(most, planned.agents, all)),
            approval: None,
            late_joiners: rollout.late_joiners,
            start_ms: None,
            analysis: None,
        }
    }

    /// What is told of its agents to the parent: the sums over its children.
    pub fn agents(&self) -> Agents {
        Agents { participants: self.agents_planned(), ..self.counts.agents }
    }

    /// The same, where managers take part.
    pub fn agents_below(&self) -> Option<Agents> {
        (!self.managers.is_empty()).then(|| self.agents())
    }

    /// Agents for whom it was planned, or who joined.
    pub fn agents_planned(&self) -> u32 {
        self.agents_of_its_own().saturating_add(self.managers.agents())
    }

    /// Those of them that are children of this manager themselves.
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
    pub fn fresh_part(&self, child: ChildKey, lacks: FunctionSet, at: ReleaseMs) -> Assignment {
        match self.managers.get(&child) {
            Some(planned) => Assignment::new_whole(planned.clone(), at),
            None => Assignment::new(at).lacking(lacks, &self.strategy),
        }
    }
}

/// The part of `most` that falls to `agents` of `all`, at least one.
fn share(most: u32, agents: u32, all: u32) -> u32 {
    let part = u64::from(most) * u64::from(agents) / u64::from(all.max(1));
    (part as u32).clamp(1, most.max(1))
}

/// Cumulative, as the manager below counts: its last wave is all that it has, however many they are by then.
fn waves_for(planned: &Planned) -> Vec<Amount> {
    let before_last = planned.quotas.len().saturating_sub(1);
    let counts = planned.quotas.iter().take(before_last).map(|(_, agents)| Amount::Count(*agents));
    counts.chain([Amount::WHOLE]).collect()
}
