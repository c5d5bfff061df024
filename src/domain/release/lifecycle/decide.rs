//! What operators and developers do to a release that exists.

use super::{
    Command,
    roll_back::roll_back,
    submit::{self, refuse_conflicts, refuse_same_adoption, supersede},
};
use crate::release::{
    assignment::Step,
    change::Change,
    command::{Decision, NoReply, Refusal, Reply},
    decide::{
        checks::{another_fact, find, held, wrong},
        draft::Walk,
    },
    ending::{Cause, Ending},
    lifecycle,
    offer::MAX_ATTEMPT,
    pause::{Pause, PausedBy},
    state::{End, Release, ReleaseState, State},
};
use model::{ChildKey, ChildStatus, Exclusion, Now, Outcome};

/// Decides what is asked of a release as a whole.
pub(in crate::release) fn decide(state: &State, command: &Command, now: Now) -> Decision {
    match command {
        Command::Submit { submission, dry_run } => submit::decide(state, submission, *dry_run, now),
        Command::Pause { release, reason } => {
            find(state, release).and_then(|release| pause(release, reason, now)).into()
        }
        Command::Resume { release } => resume(state, release, now).into(),
        Command::Abort { release, note, by } => {
            abort(state, release, note.as_deref(), by.as_deref(), now).into()
        }
        Command::Retry { release } => retry(state, release, now).into(),
        Command::PlanAgain { release } => plan_again(state, release, now).into(),
        Command::Remove { release } => remove(state, release).into(),
    }
}

/// A release that is over leaves the history. What children run is never without the release that brought it there, and one
/// that is in memory is not over, or somebody owes it something.
fn remove(state: &State, id: &str) -> Result<Decision, NoReply> {
    let Some((id, known)) = state.known.get_key_value(id) else {
        return Err(Refusal::UnknownRelease(id.to_owned()).into());
    };
    if state.find(known.key).is_some() || state.is_deployed(known.key) {
        return Ok(Decision::unchanged(Reply::Done));
    }
    let removed = Change::Lifecycle(lifecycle::Change::Removed { release: known.key, id: id.clone() });
    Ok(Decision::new(vec![removed], Reply::Done))
}

pub(in crate::release) fn pause(release: &Release, reason: &str, now: Now) -> Result<Decision, NoReply> {
    let paused = || {
        let pause = Pause::new(PausedBy::Operator, reason);
        Decision::new(
            vec![Change::Lifecycle(lifecycle::Change::Paused { release: release.key, pause, now })],
            Reply::Done,
        )
    };
    match release.state {
        // Paused from above alone, it would go on when it goes on there.
        ReleaseState::Paused { .. } if release.is_held() => Ok(paused()),
        ReleaseState::Running | ReleaseState::AwaitingApproval { .. } => {
            another_fact(release)?;
            Ok(paused())
        }
        ReleaseState::Paused { .. } => Ok(Decision::unchanged(Reply::Done)),
        ReleaseState::Planned | ReleaseState::RollingBack { .. } | ReleaseState::Over { .. } => {
            Err(wrong(release, "only a running release can be paused"))
        }
    }
}

fn resume(state: &State, id: &str, now: Now) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    let mut decision = resumed(release, now, state.conflicts(&release.strategy, release.key))?;
    if matches!(release.state, ReleaseState::Planned) {
        decision.changes.splice(0..0, supersede(state, &release.strategy, &release.id, release.key, now));
    }
    Ok(decision)
}

/// Lets a release go on, or begin, beside or in the place of those that are in its way.
pub(in crate::release) fn resumed<'a>(
    release: &Release,
    now: Now,
    conflicts: impl Iterator<Item = &'a Release>,
) -> Result<Decision, NoReply> {
    match &release.state {
        ReleaseState::Paused { .. } if release.is_held() => Err(held(release, "the pause".to_owned())),
        // Paused by both: what was paused here goes on when it goes on there.
        ReleaseState::Paused(pause) if release.is_held_by_parent() => {
            let pause = Pause::by_parent(pause.by.is_limit());
            let change = Change::Lifecycle(lifecycle::Change::Paused { release: release.key, pause, now });
            Ok(Decision::new(vec![change], Reply::Done))
        }
        ReleaseState::Paused { .. } => Ok(Decision::new(
            vec![Change::Lifecycle(lifecycle::Change::Resumed { release: release.key, now })],
            Reply::Done,
        )),
        ReleaseState::Planned if release.deferred => {
            refuse_conflicts(&release.strategy, conflicts)?;
            let begins = Change::Lifecycle(lifecycle::Change::Resumed { release: release.key, now });
            Ok(Decision::new(vec![begins], Reply::Done))
        }
        ReleaseState::Running | ReleaseState::AwaitingApproval { .. } => Ok(Decision::unchanged(Reply::Done)),
        ReleaseState::Planned | ReleaseState::RollingBack { .. } | ReleaseState::Over { .. } => Err(wrong(
            release,
            "only a release that is paused, or was submitted without being started, can be resumed",
        )),
    }
}

fn abort(
    state: &State,
    id: &str,
    note: Option<&str>,
    by: Option<&str>,
    now: Now,
) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    if !is_abortable(release)? {
        return Ok(Decision::unchanged(Reply::Done));
    }
    let text = note.unwrap_or("an operator aborted it");
    let (by, note) = (by.map(str::to_owned), note.map(str::to_owned));
    let ending = Ending { by, note, ..Ending::new(Cause::Operator, text) };
    Ok(Decision::new(roll_back(state, release, ending, End::Aborted, now), Reply::Done))
}

/// Whether an abort takes anything back that is not taken back already.
pub(in crate::release) fn is_abortable(release: &Release) -> Result<bool, NoReply> {
    match release.state {
        ReleaseState::Planned
        | ReleaseState::Running
        | ReleaseState::AwaitingApproval { .. }
        | ReleaseState::Paused { .. } => Ok(true),
        ReleaseState::RollingBack { .. } | ReleaseState::Over { end: End::Aborted | End::RolledBack, .. } => {
            Ok(false)
        }
        ReleaseState::Over { .. } => {
            let why = "what is over can't be aborted; release rollback puts back what ran before";
            Err(wrong(release, why))
        }
    }
}

fn plan_again(state: &State, id: &str, now: Now) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    let ReleaseState::Over { end: End::NoParticipants, .. } = release.state else {
        return Err(wrong(release, "only one in which nobody could take part is planned once more"));
    };
    refuse_same_adoption(state, &release.id, release.adopts.as_deref())?;
    let again = Change::Lifecycle(lifecycle::Change::Replanned { release: release.key, now });
    Ok(Decision::new(vec![again], Reply::Done))
}

pub(in crate::release) fn retry(state: &State, id: &str, now: Now) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    check_retry(release)?;
    refuse_same_adoption(state, &release.id, release.adopts.as_deref())?;
    let (retryable, gone): (Vec<ChildKey>, Vec<ChildKey>) = release
        .assignments
        .iter()
        .filter(|(_, assignment)| assignment.is_retryable())
        .map(|(child, _)| *child)
        .partition(|child| state.children.get(*child).is_some());
    let is_succeeded = || changed_since(state, release, &retryable) || conflicts_with_open(state, release);
    check_retried(release, !retryable.is_empty(), is_succeeded)?;
    let mut changes = vec![Change::Lifecycle(lifecycle::Change::Retried { release: release.key, now })];
    for child in gone {
        let Some(mut walk) = Walk::start(state, release, child, now) else { continue };
        let outcome = Outcome::Excluded(Exclusion::Forgotten);
        walk.step(Step::Ended { status: ChildStatus::No, outcome });
        changes.append(&mut walk.changes);
    }
    let replaced = |child: &ChildKey| release.assignments.get(child)?.rare().predecessor;
    for old in retryable.iter().filter_map(replaced) {
        changes.extend(goes_on_as_another(state, release, old, now));
    }
    Ok(Decision::new(changes, Reply::Done))
}

/// Whether those of a release that ended badly may be tried again, as far as it tells itself.
pub(in crate::release) fn check_retry(release: &Release) -> Result<(), NoReply> {
    match release.state {
        ReleaseState::Running
        | ReleaseState::AwaitingApproval { .. }
        | ReleaseState::Over { end: End::DoneWithFailures, .. } => {}
        // Whoever was left untested may have calls by now.
        ReleaseState::Over { end: End::Done | End::Untested, .. } if release.counts.left_untested > 0 => {}
        ReleaseState::Over { end: End::NoParticipants, .. } => {
            return Err(wrong(release, "nobody took part; submit it again once there are children for it"));
        }
        ReleaseState::Planned
        | ReleaseState::Paused(_)
        | ReleaseState::RollingBack { .. }
        | ReleaseState::Over { .. } => {
            return Err(wrong(release, "only a release that runs or ended with failures can be retried"));
        }
    }
    if release.attempt >= MAX_ATTEMPT {
        let limit = usize::from(MAX_ATTEMPT);
        return Err(Refusal::Limit { what: "attempts of a release", limit }.into());
    }
    Ok(())
}

/// Whether there is anybody to be tried again, and no later release (`is_succeeded`) is in the way of one that is over.
pub(in crate::release) fn check_retried(
    release: &Release,
    has_retryable: bool,
    is_succeeded: impl FnOnce() -> bool,
) -> Result<(), NoReply> {
    if !has_retryable {
        return Err(Refusal::NothingToRetry(release.id.clone()).into());
    }
    if release.state.is_over() && is_succeeded() {
        return Err(wrong(release, "a later release changes the same functions; submit a new one"));
    }
    Ok(())
}

/// A child was lost, and the one that took its place gets another attempt: it is that one now that counts.
pub(in crate::release) fn goes_on_as_another(
    state: &State,
    release: &Release,
    old: ChildKey,
    now: Now,
) -> Vec<Change> {
    let walk = Walk::start(state, release, old, now);
    let lost = Some(Outcome::Lost);
    let Some(mut walk) =
        walk.filter(|walk| walk.assignment.outcome == lost && walk.assignment.rare().successor.is_some())
    else {
        return Vec::new();
    };
    let outcome = Outcome::Excluded(Exclusion::Replaced);
    walk.step(Step::Ended { status: walk.assignment.status, outcome });
    walk.changes
}

fn changed_since(state: &State, release: &Release, children: &[ChildKey]) -> bool {
    let later = |child: ChildKey, function: &str| {
        state.deployment(child, function).is_some_and(|found| release.is_before(found.release))
    };
    children.iter().any(|child| release.strategy.subject_keys().any(|key| later(*child, key)))
}

fn conflicts_with_open(state: &State, release: &Release) -> bool {
    state.conflicts(&release.strategy, release.key).next().is_some()
}
