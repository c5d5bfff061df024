//! What operators do to a child, and what happens when one is gone.

use super::{draft::Walk, poll, successor};
use crate::{
    children::{self, Child, Command, Forgetting},
    release::{
        assignment::{Assignment, Step},
        change::Change,
        command::{Decision, LastSeen, Refusal, Reply},
        state::{Release, State},
    },
};
use model::{ChildKey, ChildStatus, Cordon, Exclusion, Now, Outcome, TENANT_LABEL};

/// Decides what is asked about a child.
pub(super) fn decide(state: &State, seen: &dyn LastSeen, command: &Command, now: Now) -> Decision {
    match command {
        Command::Poll(poll) => poll::decide(state, seen, poll, now),
        Command::Forget { child, even_if_it_owes } => forget(state, child, *even_if_it_owes, now).into(),
        Command::Label { child, key, value } => label(state, child, key, value.as_deref()).into(),
        Command::Cordon { child, cordon } => cordon_child(state, child, *cordon, now).into(),
    }
}

fn find<'a>(state: &'a State, id: &str) -> Result<(ChildKey, &'a Child), Refusal> {
    state.children.by_id(id).ok_or_else(|| Refusal::UnknownChild(id.to_owned()))
}

/// Forgets a child. Its successor is whoever has come back with its area, for it is gone; without one, what it may
/// still run would be nobody's to take back.
fn forget(state: &State, id: &str, even_if_it_owes: bool, now: Now) -> Result<Decision, Refusal> {
    let (key, child) = find(state, id)?;
    let debt = child
        .open
        .iter()
        .filter_map(|release| state.release(*release))
        .find(|release| release.assignments.get(&key).is_some_and(owes));
    let newcomer = debt.and_then(|_| successor::now_there(state, key));
    if let Some(release) = debt.filter(|_| newcomer.is_none() && !even_if_it_owes) {
        let (child, release) = (child.id.clone(), release.id.clone());
        return Err(Refusal::Owes { child, release });
    }
    let changes = farewell(state, key, child, newcomer, Forgetting::ByOperator, now);
    Ok(Decision::new(changes, Reply::Done))
}

/// Whether something is, or will have to be, taken back here.
fn owes(assignment: &Assignment) -> bool {
    let begun = assignment.status == ChildStatus::Doing && !assignment.may_run_new().is_empty();
    begun || assignment.pending_undo().is_some() || owes_below(assignment)
}

/// Whether a manager said that some of its agents have not proven the way back.
fn owes_below(assignment: &Assignment) -> bool {
    assignment.whole().is_some_and(|manager| manager.reported.unconfirmed > 0)
}

/// Takes a child out of whatever it has a part in, and forgets it. What it owes, `newcomer` takes over.
pub(in crate::release) fn farewell(
    state: &State,
    key: ChildKey,
    child: &Child,
    newcomer: Option<ChildKey>,
    why: Forgetting,
    now: Now,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for release in child.open.iter().filter_map(|key| state.release(*key)) {
        let Some(mut walk) = Walk::start(state, release, key, now) else { continue };
        if let Some(newcomer) = newcomer {
            successor::replace(&mut walk, newcomer, now);
        }
        let is_left = walk.assignment.is_left_untested();
        if !walk.assignment.status.is_over() || walk.assignment.outcome.is_none() || is_left {
            let status = match walk.assignment.status {
                ChildStatus::Todo => ChildStatus::No,
                ChildStatus::Done => ChildStatus::Done,
                ChildStatus::No | ChildStatus::Doing | ChildStatus::Failed => ChildStatus::Failed,
            };
            walk.step(Step::Ended { status, outcome: Outcome::Excluded(Exclusion::Forgotten) });
        }
        let pending = walk.assignment.pending_undo().is_some();
        if pending || owes_below(&walk.assignment) {
            walk.step(Step::UndoDropped);
        }
        changes.append(&mut walk.changes);
        if pending && why == Forgetting::Ghost {
            changes.extend(hand_back(&walk, now));
        }
    }
    changes.push(Change::Children(children::Change::Forgotten { child: key, id: child.id.clone(), why }));
    changes
}

/// A ghost seemed to take the place of a child and is gone: that child has its place back, and what was to be undone.
fn hand_back(ghost: &Walk<'_>, now: Now) -> Vec<Change> {
    let old = ghost.assignment.rare().predecessor.filter(|old| ghost.state.children.get(*old).is_some());
    old.and_then(|old| Walk::start(ghost.state, ghost.release, old, now))
        .filter(|walk| walk.assignment.rare().successor == Some(ghost.child))
        .map(|mut walk| {
            walk.reinstate();
            walk.changes
        })
        .unwrap_or_default()
}

fn label(state: &State, id: &str, key: &str, value: Option<&str>) -> Result<Decision, Refusal> {
    let (child, record) = find(state, id)?;
    let current = record.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    if current == value {
        return Ok(Decision::unchanged(Reply::Done));
    }
    // What it has in hand is its tenant's, and so is who else takes part in that.
    let mut open = record.open.iter().filter_map(|release| state.release(*release));
    let is_anothers = |release: &&Release| release.id.tenant().is_some_and(|tenant| Some(tenant) != value);
    if key == TENANT_LABEL
        && let Some(release) = open.find(is_anothers)
    {
        return Err(Refusal::HasPart { child: record.id.clone(), release: release.id.clone() });
    }
    let change = Change::Children(children::Change::Labelled {
        child,
        key: key.to_owned(),
        value: value.map(str::to_owned),
    });
    Ok(Decision::new(vec![change], Reply::Done))
}

fn cordon_child(state: &State, id: &str, cordon: Cordon, now: Now) -> Result<Decision, Refusal> {
    let (key, child) = find(state, id)?;
    let mut changes = Vec::new();
    if child.cordon != cordon {
        changes.push(Change::Children(children::Change::Cordoned { child: key, cordon }));
    }
    if cordon == Cordon::Drained {
        for release in child.open.iter().filter_map(|key| state.release(*key)) {
            changes.extend(take_out(state, release, key, Exclusion::Drained, now));
        }
    }
    Ok(Decision::new(changes, Reply::Done))
}

/// Takes a child out of a release that it has not begun. Nobody waits for it any more, and it counts as no failure.
pub(in crate::release) fn take_out(
    state: &State,
    release: &Release,
    child: ChildKey,
    why: Exclusion,
    now: Now,
) -> Vec<Change> {
    let walk = Walk::start(state, release, child, now);
    let Some(mut walk) = walk.filter(|walk| walk.assignment.status == ChildStatus::Todo) else {
        return Vec::new();
    };
    walk.step(Step::Ended { status: ChildStatus::No, outcome: Outcome::Excluded(why) });
    // An earlier attempt may have left something.
    walk.offer_undo();
    walk.changes
}
