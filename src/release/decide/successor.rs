//! A machine that comes back under a new id. Agents keep their id in memory: after a restart they register anew, with
//! the same area byte for byte, and what the one before them left running is theirs to take back.
//!
//! Whether somebody is a successor shows only with time, for the old id must have been silent: it is asked when a
//! newcomer registers, at its second poll, at some ages after that, and when an operator forgets the old one. Should
//! the old one call again after all, it was no successor (see [`Walk::reinstate`]).

use std::sync::Arc;

use super::walk::{Walk, not_changed_later};
use crate::{
    model::{ChildKey, ChildKind, ChildStatus, Now, Outcome},
    release::{
        apply::area_hash,
        assignment::{Assignment, Step},
        change::Change,
        command::Seen,
        settings::{SUCCESSOR_ABSENCE, SUCCESSOR_SILENCE},
        state::{Child, State},
    },
};

/// A newcomer with the very area of a silent child that has work in hand is that child after a restart: it takes
/// back what that one may have left running.
pub(super) fn succeed(
    state: &State,
    seen: &dyn Seen,
    area: Option<&str>,
    newcomer: ChildKey,
    now: Now,
) -> Vec<Change> {
    let old = area.and_then(|area| predecessor(state, seen, area, newcomer, now));
    old.map(|old| take_over(state, old, newcomer, now)).unwrap_or_default()
}

/// Looks again at the newcomers that have reached an age at which that is due.
pub(super) fn look_again(state: &State, seen: &dyn Seen, now: Now) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut taken = Vec::new();
    for newcomer in state.newcomers_due(now) {
        let Some(record) = state.children.get(newcomer).filter(|record| is_settled_agent(record)) else {
            continue;
        };
        let Some(area) = record.area.as_deref() else { continue };
        let old = predecessor(state, seen, area, newcomer, now);
        if let Some(old) = old.filter(|old| !taken.contains(old) && !taken.contains(&newcomer)) {
            taken.extend([old, newcomer]);
            changes.extend(take_over(state, old, newcomer, now));
        }
    }
    changes
}

/// Hands undos that have just become overdue to whoever calls with the very area now. A machine may have been restarted
/// long after it was done, when nothing was to be taken back yet.
pub(super) fn inherit(state: &State, seen: &dyn Seen, changes: &[Change], now: Now) -> Vec<Change> {
    let is_silent = |child: ChildKey| silence(seen, child, now) >= SUCCESSOR_ABSENCE.as_millis() as u64;
    let mut overdue: Vec<ChildKey> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Child { child, step: Step::UndoOverdue, .. } if is_silent(*child) => Some(*child),
            _ => None,
        })
        .collect();
    overdue.sort_unstable();
    overdue.dedup();
    if overdue.is_empty() {
        return Vec::new();
    }
    let heirs =
        state.areas.youngest_in_same_box(&overdue, |child| !is_silent(child) && is_free(state, child));
    heirs
        .into_iter()
        .filter(|(old, heir)| old < heir && have_same_area(state, *old, *heir))
        .flat_map(|(old, heir)| take_over(state, old, heir, now))
        .collect()
}

/// For how long nothing was heard of a child, in milliseconds of serving time.
fn silence(seen: &dyn Seen, child: ChildKey, now: Now) -> u64 {
    seen.last_call(child).map_or(u64::MAX, |last| now.served_ms.saturating_sub(last))
}

/// Who has come back in the place of a child of which somebody says that it is gone.
pub(super) fn now_there(state: &State, old: ChildKey) -> Option<ChildKey> {
    let mut later = state.newcomers.iter().rev().map(|(_, key)| *key).filter(|key| *key > old);
    later.find(|key| have_same_area(state, old, *key) && is_free(state, *key))
}

/// Whether the child may take another's place: an agent that is no ghost, and whose own place nobody has taken.
fn is_free(state: &State, child: ChildKey) -> bool {
    state.children.get(child).is_some_and(is_settled_agent) && !was_replaced(state, child)
}

/// Byte for byte; two that report none have none in common. Nobody stands where a child stands that proves who it is.
fn have_same_area(state: &State, old: ChildKey, newcomer: ChildKey) -> bool {
    let area = |child: ChildKey| state.children.get(child).and_then(|record| record.area.as_deref());
    let is_replaceable = state.children.get(old).is_some_and(|record| !proves_itself(state, record));
    is_replaceable && area(old).is_some() && area(old) == area(newcomer)
}

/// Whether a child has a token of its own, and so never needs a new id.
fn proves_itself(state: &State, child: &Child) -> bool {
    state.settings.proven.contains(child.id.as_str())
}

/// An agent that is no ghost.
fn is_settled_agent(record: &Child) -> bool {
    record.called_again && record.kind() == ChildKind::Agent
}

fn take_over(state: &State, old: ChildKey, newcomer: ChildKey, now: Now) -> Vec<Change> {
    let Some(record) = state.children.get(old) else { return Vec::new() };
    let mut changes = Vec::new();
    for release in record.open.iter().filter_map(|key| state.release(*key)) {
        let Some(mut walk) = Walk::start(state, release, old, now) else { continue };
        replace(&mut walk, newcomer);
        changes.append(&mut walk.changes);
    }
    changes
}

/// Whether the child has taken somebody's place already.
fn stands_in(state: &State, child: ChildKey) -> bool {
    parts(state, child).any(|part| part.predecessor.is_some())
}

fn was_replaced(state: &State, child: ChildKey) -> bool {
    parts(state, child).any(|part| part.successor.is_some())
}

fn parts(state: &State, child: ChildKey) -> impl Iterator<Item = &Assignment> {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    open.iter().filter_map(move |release| state.assignment(*release, child))
}

/// Ends what a child had begun in one release, and hands what is to be undone to the one that took its place.
pub(super) fn replace(walk: &mut Walk<'_>, newcomer: ChildKey) {
    let begun = walk.assignment.status == ChildStatus::Doing;
    let undoing = walk.assignment.pending_undo().map(|undo| undo.functions);
    if !begun && undoing.is_none() {
        return;
    }
    let mut functions = undoing.unwrap_or_default();
    if begun {
        functions = functions.union(walk.assignment.may_run_new());
        walk.step(Step::Ended { status: ChildStatus::Failed, outcome: Outcome::Lost });
    }
    if undoing.is_some() {
        walk.step(Step::UndoDropped);
    }
    walk.step(Step::ReplacedBy { successor: newcomer, at_work: begun });
    // What a later release changed there is no leftover any more.
    let functions = not_changed_later(walk.state, walk.release, newcomer, functions);
    if functions.is_empty() {
        return;
    }
    walk.push_for(newcomer, Step::StandsInFor { predecessor: walk.child, functions }, None);
    // One that is at work, or has rolled out, has replaced what it found by what it tests.
    let own = walk.release.assignments.get(&newcomer);
    let decides_itself =
        own.is_some_and(|part| part.status == ChildStatus::Doing || part.outcome == Some(Outcome::Succeeded));
    if !decides_itself {
        let owed = own.and_then(Assignment::pending_undo).map(|undo| undo.functions);
        let functions = functions.union(owed.unwrap_or_default());
        walk.push_for(newcomer, Step::UndoOffered { functions }, None);
    }
}

/// The child whose machine the newcomer seems to be.
///
/// A child that has something in hand may be silent by nature, so a newcomer takes the place of one of them at most:
/// neighbours may have the same area. One that should poll and does not is gone; a machine that was restarted again
/// and again leaves several of them.
fn predecessor(state: &State, seen: &dyn Seen, area: &str, newcomer: ChildKey, now: Now) -> Option<ChildKey> {
    let same = state.busy_areas.get(&area_hash(area))?;
    let is_same_area = |child: &Child| {
        child.kind() == ChildKind::Agent
            && !proves_itself(state, child)
            && child.area.as_ref().map(Arc::as_ref) == Some(area)
    };
    let stands_in = stands_in(state, newcomer);
    if was_replaced(state, newcomer) {
        return None;
    }
    same.iter().copied().find(|child| {
        let Some(record) = state.children.get(*child).filter(|record| is_same_area(record)) else {
            return false;
        };
        let should_poll = record.called_again && !has_in_hand(state, *child);
        let enough = if should_poll { SUCCESSOR_ABSENCE } else { SUCCESSOR_SILENCE };
        *child < newcomer
            && silence(seen, *child, now) >= enough.as_millis() as u64
            && (should_poll || !stands_in)
    })
}

fn has_in_hand(state: &State, child: ChildKey) -> bool {
    parts(state, child).any(|part| match part.pending_undo() {
        Some(undo) => undo.fetched,
        None => part.status == ChildStatus::Doing && part.fetched,
    })
}
