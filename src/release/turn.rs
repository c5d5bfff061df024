//! Whose turn it is: which offer, if any, waits for a child.
//!
//! What a child has in hand comes first, then undos, oldest release first, then a release between two of whose
//! offers it is, then the others in order of submission. A child has one thing in hand at a time; a release that is
//! paused before the child began, or whose wave of this child is not open, lets the next one pass.
//!
//! A manager carries out several things beside each other, so an undo waits for nothing there: what it has in hand may
//! be paused for as long as somebody likes.

use super::{
    assignment::Assignment,
    offer::OfferName,
    state::{Release, State},
};
use crate::model::{ChildKey, ChildKind, ChildStatus, ReleaseKey};

/// What a child should do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing waits for it.
    Idle,
    /// It has downloaded this and not ended it.
    Busy { release: ReleaseKey, undo: bool },
    /// An offer of this release follows as soon as there is a place for one more.
    Queued { release: ReleaseKey },
    /// This waits to be fetched.
    Offer { release: ReleaseKey, name: OfferName },
}

/// The turn of a child. `Idle` for one that is not known.
pub fn turn(state: &State, child: ChildKey) -> Turn {
    let Some(record) = state.children.get(child) else { return Turn::Idle };
    let open = || {
        record.open.iter().filter_map(|key| {
            let release = state.release(*key)?;
            Some((release, release.assignments.get(&child)?))
        })
    };
    let undos = || open().filter_map(|(release, a)| Some((release.key, a.pending_undo()?)));
    let new_undo = || {
        let (release, undo) = undos().find(|(_, undo)| !undo.fetched)?;
        Some(Turn::Offer { release, name: OfferName::undo(undo.number) })
    };
    if record.kind() == ChildKind::Rm
        && let Some(undo) = new_undo()
    {
        return undo;
    }
    // What is in hand is finished first: an agent takes nothing else meanwhile.
    for (release, assignment) in open() {
        if is_in_hand(assignment) {
            return Turn::Busy { release: release.key, undo: false };
        }
    }
    if let Some((release, _)) = undos().find(|(_, undo)| undo.fetched) {
        return Turn::Busy { release, undo: true };
    }
    if let Some(undo) = new_undo() {
        return undo;
    }
    let offer = |(release, assignment): (&Release, &Assignment)| {
        if release.gates.queues(assignment) {
            return Turn::Queued { release: release.key };
        }
        Turn::Offer { release: release.key, name: assignment.offer_name() }
    };
    // Between two offers of a release no other may come, not even one that was submitted before and started later.
    if let Some(begun) = open().find(|(_, assignment)| assignment.status == ChildStatus::Doing) {
        let may = begun.0.is_running() && !begun.0.gates.holds(begun.1);
        return if may { offer(begun) } else { Turn::Idle };
    }
    open()
        .find(|(release, assignment)| {
            let may = release.is_running() && !release.gates.holds(assignment);
            assignment.status == ChildStatus::Todo && may
        })
        .map_or(Turn::Idle, offer)
}

/// Whether a child has something in hand anywhere: it may be silent then without being gone.
pub fn has_in_hand(state: &State, child: ChildKey) -> bool {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    open.iter().filter_map(|release| state.assignment(*release, child)).any(|assignment| {
        is_in_hand(assignment) || assignment.pending_undo().is_some_and(|undo| undo.fetched)
    })
}

/// The offers that a child has in hand and whose release is paused.
pub fn held(state: &State, child: ChildKey) -> Vec<String> {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    let paused = open.iter().filter_map(|key| state.release(*key)).filter(|release| release.is_paused());
    let in_hand = paused.filter_map(|release| {
        let assignment = release.assignments.get(&child).filter(|assignment| is_in_hand(assignment))?;
        Some(assignment.offer_name().id(release.id.as_str()))
    });
    in_hand.collect()
}

fn is_in_hand(assignment: &Assignment) -> bool {
    assignment.status == ChildStatus::Doing && assignment.fetched
}

/// Whether this release's next offer is what waits for the child.
pub fn is_offered(state: &State, release: ReleaseKey, child: ChildKey) -> bool {
    matches!(turn(state, child), Turn::Offer { release: offered, .. } if offered == release)
}

/// Whether this very offer is what waits for the child.
pub fn is_next(state: &State, release: ReleaseKey, child: ChildKey, name: OfferName) -> bool {
    turn(state, child) == Turn::Offer { release, name }
}

/// Whether a child's next offer has to wait for something that makes way in time. An undo that is overdue does not: a
/// child that does not come for it won't come for what follows either.
///
/// Nor does a release whose barrier holds the child: it may wait for others that are held in this one, and neither
/// would ever open.
pub fn is_behind_another(state: &State, release: ReleaseKey, child: ChildKey) -> bool {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    let is_held = |key: &ReleaseKey| {
        *key != release && state.release(*key).is_some_and(|other| other.holds_at_barrier(child))
    };
    if open.iter().any(is_held) {
        return false;
    }
    match turn(state, child) {
        Turn::Idle => true,
        Turn::Offer { release: first, .. } | Turn::Queued { release: first } if first == release => false,
        Turn::Offer { release: first, .. }
        | Turn::Queued { release: first }
        | Turn::Busy { release: first, .. } => {
            let undo = state.assignment(first, child).and_then(Assignment::pending_undo);
            undo.is_none_or(|undo| !undo.overdue)
        }
    }
}
