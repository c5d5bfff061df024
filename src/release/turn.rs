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
    // It has begun this one and waits between two offers: no other release may come between.
    let begun = open().find(|(_, assignment)| assignment.status == ChildStatus::Doing);
    if let Some((release, assignment)) = begun {
        return offer_of(release, assignment).unwrap_or(Turn::Idle);
    }
    open()
        .filter(|(_, assignment)| assignment.status == ChildStatus::Todo)
        .find_map(|(release, assignment)| offer_of(release, assignment))
        .unwrap_or(Turn::Idle)
}

fn offer_of(release: &Release, assignment: &Assignment) -> Option<Turn> {
    release.is_running().then(|| Turn::Offer { release: release.key, name: assignment.offer_name() })
}

fn is_in_hand(assignment: &Assignment) -> bool {
    assignment.status == ChildStatus::Doing && assignment.fetched
}

/// Whether this release's next offer is what waits for the child.
pub fn is_offered(state: &State, release: ReleaseKey, child: ChildKey) -> bool {
    matches!(turn(state, child), Turn::Offer { release: offered, .. } if offered == release)
}

/// Whether another release, in which the child is awaited, goes first. An undo that is overdue holds nothing up: a
/// child that does not fetch it will not fetch what follows either.
pub fn is_behind_another(state: &State, release: ReleaseKey, child: ChildKey) -> bool {
    let Some(record) = state.children.get(child) else { return false };
    !is_offered(state, release, child)
        && record
            .open
            .iter()
            .filter(|other| **other != release)
            .filter_map(|other| Some((*other, state.assignment(*other, child)?)))
            .any(|(other, assignment)| {
                let begun = assignment.status == ChildStatus::Doing;
                assignment.is_awaited() && (other < release || begun)
            })
}
