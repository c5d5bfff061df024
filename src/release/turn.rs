//! Whose turn it is: which offer, if any, waits for a child.
//!
//! Undos come before anything else, oldest release first. A child has one release in hand at a time, in order of
//! submission; a release that is paused before the child began lets the next one pass.

use super::{
    assignment::Assignment,
    offer::OfferName,
    state::{Release, State},
};
use crate::model::{ChildKey, ChildStatus, ReleaseKey};

/// What a child should do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing waits for it.
    Idle,
    /// It has downloaded this and not ended it.
    Busy { release: ReleaseKey, undo: bool },
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
    // What is in hand is finished first: an agent takes nothing else meanwhile.
    for (release, assignment) in open() {
        if is_in_hand(assignment) {
            return Turn::Busy { release: release.key, undo: false };
        }
    }
    for (release, assignment) in open() {
        if let Some(undo) = assignment.pending_undo() {
            return if undo.fetched {
                Turn::Busy { release: release.key, undo: true }
            } else {
                Turn::Offer { release: release.key, name: OfferName::undo(undo.number) }
            };
        }
    }
    for (release, assignment) in open() {
        match next_of(release, assignment) {
            Next::Pass => {}
            Next::Hold => return Turn::Idle,
            Next::Offer => return Turn::Offer { release: release.key, name: assignment.offer_name() },
        }
    }
    Turn::Idle
}

enum Next {
    Pass,
    Hold,
    Offer,
}

fn next_of(release: &Release, assignment: &Assignment) -> Next {
    match assignment.status {
        ChildStatus::Todo | ChildStatus::Doing if release.is_running() => Next::Offer,
        // It has begun and waits between two offers: no other release may come between.
        ChildStatus::Doing => Next::Hold,
        _ => Next::Pass,
    }
}

fn is_in_hand(assignment: &Assignment) -> bool {
    assignment.status == ChildStatus::Doing && assignment.fetched
}

/// Whether this release's next offer is what waits for the child.
pub fn is_offered(state: &State, release: ReleaseKey, child: ChildKey) -> bool {
    matches!(turn(state, child), Turn::Offer { release: offered, .. } if offered == release)
}

/// Whether what the child should do first is an undo that nobody waits for any longer: as far as anybody can tell the
/// child is gone, and whatever stands behind that undo is offered in vain.
pub fn is_behind_overdue_undo(state: &State, child: ChildKey) -> bool {
    let first = match turn(state, child) {
        Turn::Busy { release, undo: true } | Turn::Offer { release, .. } => release,
        Turn::Busy { undo: false, .. } | Turn::Idle => return false,
    };
    state.assignment(first, child).and_then(Assignment::pending_undo).is_some_and(|undo| undo.overdue)
}
