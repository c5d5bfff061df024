//! What a manager below is handed: one offer with the whole strategy, which it walks for its own children. Where its agents
//! are spread over several waves it is handed an offer for each, and each continues the one before.
//!
//! Of a hybrid release it is handed what its group does: a plain release of functions or of services. It knows nothing of the other
//! group, which begins, and goes back, when this manager says so.
//!
//! Invariant: what is told of limits are numbers of agents, so that nobody below has to know who else takes part.
//!
//! Deliberately not here: how a release from above is led (`parent`), the text itself (`language::render_full`).

use super::{
    assignment::{Assignment, Whole},
    gate::HybridLevels,
    manager::{Planned, share},
    offer::{OfferName, Unit},
    state::Release,
};
use language::{
    Amount, FromParent, Group, Interim, Notes, OnConflict, OnLimit, Order, Rollout, Round, Stage, StageKind,
    Strategy, part_of_the,
};

/// Most agents of a release that report stages on the way only for people to see: of so few it costs nothing.
const MOST_REPORTING: u64 = 100;

/// What each stage is to a manager below: it waits for the signal where a barrier stands after it; where the manager is not
/// in charge, as the developer wrote.
fn kind(strategy: &Strategy, levels: &HybridLevels, at: usize, stage: &Stage) -> StageKind {
    if strategy.rollout.is_none() {
        return stage.kind;
    }
    if levels.has_barrier_after(at) { StageKind::WaitForSignal } else { StageKind::AB }
}

impl Release {
    /// The strategy as it is handed to a manager below. The target is whole, as it was written: a part that were cut out would have other
    /// corners, and agents that only touch the target could lie in it.
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
        if !self.strategy.is_hybrid() {
            return strategy;
        }
        let mut part = strategy.of_group(assignment.group(&self.strategy));
        let names: Vec<&str> = part.stages.iter().map(|stage| stage.name.as_str()).collect();
        if let Some(said) = &mut part.from_parent {
            said.interim.retain(|(stage, _)| names.contains(&stage.as_str()));
        }
        part
    }

    fn said_beside(&self, rollout: &Rollout, assignment: &Assignment, manager: &Whole) -> FromParent {
        let waves = rollout.order.is_in_waves().then(|| manager.waves_open(assignment.wave));
        let before = |attempt| OfferName::of(Unit::Whole, attempt).id(self.id.as_str());
        FromParent {
            waves,
            continues: manager.continues.map(before),
            undoes: None,
            retries: manager.retries,
            interim: self.strategy.interims(),
            classes: self.strategy.is_classed(),
            local_alpha: Some(self.local_alpha()),
            salt: Some(self.salt()),
            keeps_failed: self.keeps_failed(),
        }
    }

    /// The strategy as an agent walks through it that judges by itself: with what it may spend of alpha in this attempt, from 1.
    /// Of a hybrid it is what a group does. Where few agents take part they report stages on the way, whether or not an analysis looks.
    pub fn strategy_in_place(&self, attempt: u16, group: Group) -> Strategy {
        let mut strategy = self.strategy.of_group(group);
        let alpha = self.local_alpha() * part_of_the(attempt.into());
        let is_watched = self.agents_at_start() <= MOST_REPORTING;
        let unreported = |at: &usize| is_watched && strategy.interim(*at).is_none();
        let unreported = (0..strategy.stages.len()).filter(unreported);
        let for_people: Vec<(String, Interim)> =
            unreported.map(|at| (strategy.stages[at].name.clone(), Interim::FOR_PEOPLE)).collect();
        let said = strategy.from_parent.get_or_insert_default();
        said.interim.extend(for_people);
        (said.local_alpha, said.salt) = (Some(alpha), Some(self.salt()));
        said.keeps_failed = self.keeps_failed();
        strategy
    }

    /// Whether a stage that fails at an agent keeps its shares until somebody decides: where one failure stops the release, and what is
    /// tried isn't to be taken back for it. Who may fail within a limit goes back by itself, for nobody is asked about that one. Of what
    /// came from above the parent says whether.
    fn keeps_failed(&self) -> bool {
        let stops = |rollout: &Rollout| rollout.on_failure == OnLimit::Pause && rollout.max_failed.is_none();
        self.strategy.is_decided_above() || self.strategy.rollout.as_ref().is_some_and(stops)
    }

    /// By what users are drawn: the same in all attempts, and in the whole tree.
    fn salt(&self) -> String {
        let told = self.strategy.from_parent.as_ref().and_then(|said| said.salt.clone());
        told.unwrap_or_else(|| self.id.to_string())
    }

    /// Of each agent, over all its attempts. By the agents that were there when the release began: so an offer stays what it was when others join.
    fn local_alpha(&self) -> f64 {
        self.strategy.local_alpha(self.agents_at_start())
    }

    fn agents_at_start(&self) -> u64 {
        let own = self.members.len().saturating_sub(self.managers.len()) as u64;
        own + u64::from(self.managers.agents())
    }

    /// The block for a manager below. What needs somebody's approval, and what is to soak over the whole fleet, stays here.
    fn rollout_for(&self, rollout: &Rollout, planned: &Planned) -> Rollout {
        let all = self.agents_planned();
        let count = |limit: Amount| Amount::Count(limit.of(all, Round::Down));
        let order = match &rollout.order {
            Order::Waves(_) => Order::Waves(waves_for(planned)),
            other @ (Order::Parallel | Order::GlobalIncremental | Order::LocationSequential { .. }) => {
                other.clone()
            }
        };
        Rollout {
            soak: match order {
                Order::LocationSequential { .. } => rollout.soak,
                Order::Waves(_) | Order::Parallel | Order::GlobalIncremental => std::time::Duration::ZERO,
            },
            order,
            max_failed: count(rollout.max_failed),
            max_timed_out: count(rollout.max_timed_out),
            max_unreachable: count(rollout.max_unreachable),
            // Who is untested runs the base version: there is no hurry.
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
            // Who acts where it was planned says why.
            notes: Notes::Optional,
            start_ms: None,
            analysis: None,
        }
    }
}

/// Cumulative, as the manager below counts: its last wave is all that it has, however many they are by then.
fn waves_for(planned: &Planned) -> Vec<Amount> {
    let before_last = planned.quotas.len().saturating_sub(1);
    let counts = planned.quotas.iter().take(before_last).map(|(_, agents)| Amount::Count(*agents));
    counts.chain([Amount::WHOLE]).collect()
}
