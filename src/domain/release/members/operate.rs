//! What operators do to a single child of a release.

use crate::release::{
    assignment::Step,
    change::Change,
    command::{Decision, NoReply, Refusal, Reply},
    decide::{
        checks::{find, wrong},
        draft::Walk,
        take_out,
    },
    lifecycle::{self, goes_on_as_another},
    offer::MAX_ATTEMPT,
    replan::was_unfit,
    state::{Release, State},
};
use model::{ChildStatus, Exclusion, Now, Outcome};

fn part<'a>(state: &'a State, id: &str, child: &str, now: Now) -> Result<(&'a Release, Walk<'a>), NoReply> {
    let release = find(state, id)?;
    let key = state.children.key(child).ok_or_else(|| Refusal::UnknownChild(child.to_owned()))?;
    let walk = Walk::start(state, release, key, now);
    let no_part = || Refusal::NoPart { child: child.to_owned(), release: release.id.clone() };
    Ok((release, walk.ok_or_else(no_part)?))
}

/// Takes a child out: nobody waits for it any more, and what it may have left running is undone.
pub(in crate::release) fn skip(state: &State, id: &str, child: &str, now: Now) -> Result<Decision, NoReply> {
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
        return Ok(Decision::new(acted_on(release, changes), Reply::Done));
    }
    walk.give_up(skipped);
    Ok(Decision::new(acted_on(release, walk.changes), Reply::Done))
}

/// Gives one child another attempt while the others go on.
pub(in crate::release) fn retry(state: &State, id: &str, child: &str, now: Now) -> Result<Decision, NoReply> {
    let (release, mut walk) = part(state, id, child, now)?;
    if !release.is_under_way() {
        return Err(wrong(
            release,
            "a single child can be retried while the release is under way; retry the release",
        ));
    }
    let taken_out = |outcome| outcome == Outcome::Excluded(Exclusion::Skipped) || was_unfit(outcome);
    if !walk.assignment.is_retryable() && !walk.assignment.outcome.is_some_and(taken_out) {
        return Err(Refusal::NothingToRetry(release.id.clone()).into());
    }
    if let Some(why) = release.unfit(state, walk.child) {
        return Err(Refusal::Unfit { child: child.to_owned(), release: release.id.clone(), why }.into());
    }
    if walk.assignment.attempt >= MAX_ATTEMPT {
        let limit = usize::from(MAX_ATTEMPT);
        return Err(Refusal::Limit { what: "attempts of a child", limit }.into());
    }
    walk.step(Step::Retried);
    let mut changes = walk.changes;
    if let Some(old) = walk.assignment.rare().predecessor {
        changes.extend(goes_on_as_another(state, release, old, now));
    }
    Ok(Decision::new(acted_on(release, changes), Reply::Done))
}

fn acted_on(release: &Release, mut changes: Vec<Change>) -> Vec<Change> {
    changes.push(Change::Lifecycle(lifecycle::Change::ActedOn { release: release.key }));
    changes
}
