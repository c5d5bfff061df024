//! A release is taken back.

use std::collections::BTreeSet;

use super::Change as CourseChange;
use crate::release::{
    assignment::{Dated, ReleaseEvent},
    change::Change,
    decide::{draft::Walk, successor},
    ending::Ending,
    state::{End, Release, ReleaseState, State},
};
use model::Now;

/// Takes back a release that is not over. Everybody who may run the new version is offered the undo, except where a later
/// release changed the function (it did, if this one was over before and was retried) and where the child is gone.
pub(in crate::release) fn roll_back(
    state: &State,
    release: &Release,
    why: Ending,
    end: End,
    now: Now,
) -> Vec<Change> {
    let mut changes =
        vec![Change::Lifecycle(CourseChange::Aborted { release: release.key, why: Box::new(why), end, now })];
    if matches!(release.state, ReleaseState::Planned) {
        return changes;
    }
    let fact = Dated { fact: ReleaseEvent::Aborted, at: release.at(now) };
    let mut heirs = BTreeSet::new();
    for (child, assignment) in &release.assignments {
        if assignment.may_run_new().is_empty() {
            continue;
        }
        let Some(mut walk) = Walk::start(state, release, *child, now) else { continue };
        walk.assignment.fold(&fact, &release.strategy, &release.gates.levels);
        if walk.assignment.undo() != assignment.undo() {
            walk.trim_undo();
            // What a machine did under an id that it has no more it takes back under the one that it has.
            if let Some(heir) = successor::heir(state, *child).filter(|heir| heirs.insert(*heir)) {
                successor::replace(&mut walk, heir, now);
            }
            changes.append(&mut walk.changes);
        }
    }
    changes
}
