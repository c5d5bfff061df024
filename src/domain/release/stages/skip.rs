//! An operator has seen enough of a stage, or wants to see nothing of it.
//!
//! - Who has not begun the stage passes over it as if it had succeeded, also those that are still before it, that join
//!   later, or that get another attempt.
//! - Who is in it is told to end it, where it waits for a signal, and judges by what it has measured; what was handed out
//!   can't be recalled. Its result counts like any other.
//! - Barriers and approvals stay where they are. Nobody runs on in a stage of their own meanwhile: who passed over one is
//!   held before the next.
//!
//! A manager below is told which stages are skipped whenever it asks about a stage, and passes over them likewise.

use crate::release::{
    assignment::Step,
    change::Change,
    command::{Decision, NoReply, Reply},
    decide::checks::{another_fact, find, held, stage_of, wrong},
    members,
    offer::Unit,
    stages,
    state::{Release, State},
};
use language::Action;
use model::{ChildKey, Now};

/// `from_parent`: the parent says so.
pub(in crate::release) fn decide(
    state: &State,
    id: &str,
    stage: &str,
    from_parent: bool,
    now: Now,
) -> Result<Decision, NoReply> {
    skipped(find(state, id)?, stage, from_parent, now)
}

pub(in crate::release) fn skipped(
    release: &Release,
    stage: &str,
    from_parent: bool,
    now: Now,
) -> Result<Decision, NoReply> {
    if release.parent.is_some() && !from_parent {
        return Err(held(release, "which stages are skipped".to_owned()));
    }
    if !release.state.is_going() {
        return Err(wrong(release, "a stage can be skipped while the release runs"));
    }
    let index = stage_of(release, stage)?;
    if release.skipped().any(|skipped| usize::from(skipped) == index) {
        return Ok(Decision::unchanged(Reply::Done));
    }
    let then = match release.strategy.stages.get(index).map(|stage| stage.on_success) {
        Some(Action::Stage(next)) => release.instead_of(Unit::Stage(next as u8)),
        Some(Action::Rollout) => Unit::Rollout(0),
        Some(Action::Rollback) | None => {
            return Err(wrong(release, "nothing follows this stage, so there is nothing to go on with"));
        }
    };
    another_fact(release)?;
    let change =
        Change::Stages(stages::Change::Skipped { release: release.key, stage: index as u8, then, now });
    Ok(Decision::new(vec![change], Reply::Done))
}

impl Release {
    /// The stages that nobody begins any more, in the order in which that was said.
    pub fn skipped(&self) -> impl Iterator<Item = u8> + '_ {
        self.facts.iter().filter_map(|dated| dated.fact.skipped()).map(|(stage, _)| stage)
    }

    /// What they are called, each once, in the order of the strategy.
    pub fn skipped_names(&self) -> Vec<String> {
        let is_skipped = |stage: usize| self.skipped().any(|skipped| usize::from(skipped) == stage);
        let stages = self.strategy.stages.iter().enumerate().filter(|(stage, _)| is_skipped(*stage));
        stages.map(|(_, stage)| stage.name.clone()).collect()
    }

    /// What is run in the place of `piece`: itself, unless it is skipped.
    pub(in crate::release) fn instead_of(&self, piece: Unit) -> Unit {
        let skipped = self.facts.iter().filter_map(|dated| dated.fact.skipped());
        skipped.fold(piece, |piece, (stage, then)| if piece == Unit::Stage(stage) { then } else { piece })
    }
}

/// Who begins anew passes over what is skipped, too.
pub(in crate::release) fn again(state: &State, changes: &[Change], now: Now) -> Vec<Change> {
    let follows = |change: &Change| match change {
        Change::Members(change) => match change {
            members::Change::Joined { release, child, .. }
            | members::Change::Stepped { release, child, step: Step::Retried, .. } => {
                one_again(state.release(*release)?, *child, now)
            }
            members::Change::Stepped { .. }
            | members::Change::DeadlinesSeen { .. }
            | members::Change::Numbers { .. }
            | members::Change::LateKept { .. }
            | members::Change::Deployed { .. } => None,
        },
        Change::Lifecycle(change) => all_again(state.release(change.retried()?)?, now),
        Change::Children(_)
        | Change::Rollout(_)
        | Change::Stages(_)
        | Change::Parent(_)
        | Change::Analysis(_)
        | Change::Traffic(_)
        | Change::Workflows(_) => None,
    };
    changes.iter().filter_map(follows).collect()
}

fn one_again(release: &Release, child: ChildKey, now: Now) -> Option<Change> {
    let assignment = release.assignments.get(&child)?;
    let piece = release.instead_of(assignment.piece());
    let begins = !assignment.fetched && !assignment.status.is_over();
    let (release, at) = (release.key, release.at(now));
    let step = Step::NextOffer { piece };
    (begins && piece != assignment.piece()).then_some(Change::Members(members::Change::Stepped {
        release,
        child,
        step,
        at,
        summary: None,
    }))
}

/// As a fact: that the first stage is skipped is said again, for those who begin with it again.
fn all_again(release: &Release, now: Now) -> Option<Change> {
    let first = Unit::FIRST;
    let then = release.instead_of(first);
    match first {
        Unit::Stage(stage) if then != first => {
            Some(Change::Stages(stages::Change::Skipped { release: release.key, stage, then, now }))
        }
        Unit::Stage(_) | Unit::Whole | Unit::Rollout(_) => None,
    }
}
