//! What an operator wants of a stage, for all who are in it or would come to it.

use super::{Change as StageChange, Command, skip};
use crate::release::{
    assignment::{Assignment, StepIndex},
    change::Change,
    command::{Decision, NoReply, Reply},
    decide::checks::{another_fact, find, held, stage_of, wrong},
    lifecycle,
    state::State,
};
use model::Now;

/// Decides what is asked of a stage.
pub(in crate::release) fn decide(state: &State, command: &Command, now: Now) -> Decision {
    match command {
        Command::End { release, stage } => end_stage(state, release, stage, now).into(),
        Command::Skip { release, stage } => skip::decide(state, release, stage, false, now).into(),
    }
}

fn end_stage(state: &State, id: &str, stage: &str, now: Now) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    if !release.is_running() {
        return Err(wrong(release, "a stage can be ended while the release runs"));
    }
    let index = stage_of(release, stage)?;
    let mut inside = release.assignments.values().filter(|assignment| assignment.is_in(index)).peekable();
    if inside.peek().is_none() {
        return Ok(Decision::unchanged(Reply::Done));
    }
    if release.barrier_of_parent(index).is_some() {
        return Err(held(release, format!("the end of stage {stage:?}")));
    }
    // Agents that end it are held before what follows; a manager would take the signal for the opening of the barrier.
    let has_managers = inside.clone().any(Assignment::is_whole);
    if has_managers && !release.gates.may_end(StepIndex::stage(index)) {
        let why = "a barrier stands after this stage, and managers below would lead their agents past it: approve or \
                   promote the release instead";
        return Err(wrong(release, why));
    }
    if inside.clone().any(Assignment::is_in_place) && !release.gates.may_end(StepIndex::stage(index)) {
        let why = "a barrier stands after this stage, and agents that walk through the stages by themselves would go past \
                   it: approve or promote the release instead";
        return Err(wrong(release, why));
    }
    if !inside.any(|assignment| assignment.ends_on_signal(index, &release.strategy)) {
        return Err(wrong(
            release,
            "whoever is in this stage of type A/B waits for no signal: it ends by itself",
        ));
    }
    another_fact(release)?;
    let (release, stage) = (release.key, index as u8);
    let ended = Change::Stages(StageChange::Ended { release, stage, now });
    Ok(Decision::new(vec![ended, Change::Lifecycle(lifecycle::Change::ActedOn { release })], Reply::Done))
}
