//! What operators do to a release that is led, and to single children of one.

use super::{
    children::take_out,
    lacks_of, membership,
    operate::{another_fact, find, goes_on_as_another, held as held_above, wrong},
    walk::Walk,
};
use crate::release::{
    assignment::Step,
    change::Change,
    command::{Decision, Refusal, Reply, Seen},
    gate::{ALL_OPEN, Gate},
    offer::MAX_ATTEMPT,
    replan::was_unfit,
    state::{Release, ReleaseState, State},
    turnout::Turnouts,
};
use model::{ChildStatus, Exclusion, Now, Outcome};

pub(super) fn approve(state: &State, id: &str, now: Now) -> Result<Decision, Refusal> {
    let release = find(state, id)?;
    match release.state {
        ReleaseState::AwaitingApproval { .. } => {
            Ok(Decision::new(vec![Change::ReleaseApproved { release: release.key, now }], Reply::Done))
        }
        // Said twice.
        ReleaseState::Running if release.gates.stand.reached.is_some_and(|reached| reached.approved) => {
            Ok(Decision::unchanged(Reply::Done))
        }
        _ => Err(wrong(release, "it does not wait for an approval")),
    }
}

/// Whoever says so has seen enough: what is left of waves, barriers, soaks and approvals opens at once. Limits hold. What
/// came from the manager above is promoted as far as the next gate that only that one opens.
pub(super) fn promote(state: &State, id: &str, now: Now) -> Result<Decision, Refusal> {
    let release = find(state, id)?;
    if !matches!(release.state, ReleaseState::Running | ReleaseState::AwaitingApproval { .. }) {
        return Err(wrong(release, "only a release that runs can be promoted"));
    }
    another_fact(release)?;
    let (from, all) = (release.gates.stand.waves, release.turns.waves());
    let waves = if release.waves_from_above() { from } else { all };
    let mut changes = Vec::new();
    let mut closed = release.gates.stand.level;
    if from < waves {
        changes.push(Change::WavesOpened { release: release.key, from, to: waves - 1, now });
        // Each new wave meets all barriers anew.
        closed = release.gates.levels.barrier_from(0);
    }
    let level = release.signalled_from(closed);
    if closed < level {
        changes.push(Change::LevelOpened { release: release.key, level, now });
    }
    let held =
        if level < ALL_OPEN { Some(Gate::Level(level)) } else { (waves < all).then_some(Gate::Wave(waves)) };
    match held.filter(|_| changes.is_empty()) {
        Some(gate) => Err(held_above(release, release.gate_name(gate))),
        None => Ok(Decision::new(changes, Reply::Done)),
    }
}

/// Takes in whoever could take part by now and has no part. They begin with the first stage, after all others.
pub(super) fn extend(state: &State, seen: &dyn Seen, id: &str, now: Now) -> Result<Decision, Refusal> {
    let release = find(state, id)?;
    if !release.is_under_way() {
        return Err(wrong(release, "only a release that is under way can be extended"));
    }
    if release.waves_from_above() {
        return Err(held_above(release, "who has a turn in which wave".to_owned()));
    }
    let able = membership(state, seen, &release.strategy, &Turnouts::new(), now).members;
    let new = able.iter().filter(|child| !release.assignments.contains_key(child));
    let joined = new.map(|child| {
        let lacks = lacks_of(state, release, *child);
        Change::ChildJoined { release: release.key, child: *child, instead_of: None, now, lacks }
    });
    Ok(Decision::new(joined.collect(), Reply::Done))
}

fn part<'a>(state: &'a State, id: &str, child: &str, now: Now) -> Result<(&'a Release, Walk<'a>), Refusal> {
    let release = find(state, id)?;
    let key = state.children.key(child).ok_or_else(|| Refusal::UnknownChild(child.to_owned()))?;
    let walk = Walk::start(state, release, key, now);
    let no_part = || Refusal::NoPart { child: child.to_owned(), release: release.id.clone() };
    walk.map(|walk| (release, walk)).ok_or_else(no_part)
}

/// Takes a child out: nobody waits for it any more, and what it may have left running is undone.
pub(super) fn skip_child(state: &State, id: &str, child: &str, now: Now) -> Result<Decision, Refusal> {
    let (release, mut walk) = part(state, id, child, now)?;
    let skipped = Outcome::Excluded(Exclusion::Skipped);
    if walk.assignment.outcome == Some(skipped) {
        return Ok(Decision::unchanged(Reply::Done));
    }
    if !release.is_under_way() || walk.assignment.status.is_over() {
        return Err(wrong(release, "this child has ended its part, or the release is not under way"));
    }
    if walk.assignment.status == ChildStatus::Todo {
        let changes = take_out(state, release, walk.child, Exclusion::Skipped, now);
        return Ok(Decision::new(changes, Reply::Done));
    }
    walk.give_up(skipped);
    Ok(Decision::new(walk.changes, Reply::Done))
}

/// Gives one child another attempt while the others go on.
pub(super) fn retry_child(state: &State, id: &str, child: &str, now: Now) -> Result<Decision, Refusal> {
    let (release, mut walk) = part(state, id, child, now)?;
    if !release.is_under_way() {
        return Err(wrong(
            release,
            "a single child can be retried while the release is under way; retry the release",
        ));
    }
    let taken_out = |outcome| outcome == Outcome::Excluded(Exclusion::Skipped) || was_unfit(outcome);
    if !walk.assignment.is_retryable() && !walk.assignment.outcome.is_some_and(taken_out) {
        return Err(Refusal::NothingToRetry(release.id.clone()));
    }
    if let Some(why) = release.unfit(state, walk.child) {
        return Err(Refusal::Unfit { child: child.to_owned(), release: release.id.clone(), why });
    }
    if walk.assignment.attempt >= MAX_ATTEMPT {
        let limit = usize::from(MAX_ATTEMPT);
        return Err(Refusal::Limit { what: "attempts of a child", limit });
    }
    walk.step(Step::Retried);
    let mut changes = walk.changes;
    if let Some(old) = walk.assignment.rare().predecessor {
        changes.extend(goes_on_as_another(state, release, old, now));
    }
    Ok(Decision::new(changes, Reply::Done))
}
