//! Whose turn it is: which offer, if any, waits for a child.
//!
//! What a child has in hand comes first, then undos, oldest release first, then a release between two of whose
//! offers it is, then the others in order of submission. A child has one thing in hand at a time; a release that is
//! paused before the child began, or whose wave of this child is not open, lets the next one pass.
//!
//! After an undo that failed the next one rests: meanwhile what else waits for the child is offered, but for its own release.
//!
//! A manager carries out several things beside each other, so an undo waits for nothing there: what it has in hand may
//! be paused for as long as somebody likes.

use super::{
    assignment::{Assignment, Undo},
    offer::OfferName,
    state::{Release, Snapshot},
};
use model::{ChildKey, ChildStatus, ReleaseKey, steps};

/// What a child should do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAction {
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
pub fn turn(state: &Snapshot, child: ChildKey) -> NextAction {
    let Some(record) = state.children.get(child) else { return NextAction::Idle };
    let is_manager = record.kind().is_manager();
    let Parts { in_hand, undo_in_hand, new_undo, begun, to_begin } = Parts::of(state, child, &record.open);
    let new_undo =
        new_undo.map(|(release, undo)| NextAction::Offer { release, name: OfferName::undo(undo.number) });
    if let Some(undo) = new_undo.filter(|_| is_manager) {
        return undo;
    }
    // What is in hand is finished first: an agent takes nothing else meanwhile.
    if let Some(release) = in_hand {
        return NextAction::Busy { release, undo: false };
    }
    if let Some(release) = undo_in_hand {
        return NextAction::Busy { release, undo: true };
    }
    if let Some(undo) = new_undo {
        return undo;
    }
    let offer = |(release, assignment): (&Release, &Assignment)| {
        if release.gates.queues(assignment) {
            return NextAction::Queued { release: release.key };
        }
        NextAction::Offer { release: release.key, name: assignment.offer_name() }
    };
    // Between two offers of a release no other may come, not even one that was submitted before and started later.
    if let Some(begun) = begun {
        let may = begun.0.is_running() && !begun.0.gates.holds(begun.1) && begun.1.rests_until().is_none();
        return if may { offer(begun) } else { NextAction::Idle };
    }
    to_begin.map_or(NextAction::Idle, offer)
}

/// The first of each kind among the parts of a child in releases that are not over, oldest first. All are found in one
/// walk: somebody may have a part in every release that is open.
#[derive(Default)]
struct Parts<'s> {
    in_hand: Option<ReleaseKey>,
    undo_in_hand: Option<ReleaseKey>,
    new_undo: Option<(ReleaseKey, &'s Undo)>,
    begun: Option<(&'s Release, &'s Assignment)>,
    /// It has not begun and may.
    to_begin: Option<(&'s Release, &'s Assignment)>,
}

impl<'s> Parts<'s> {
    fn of(state: &'s Snapshot, child: ChildKey, open: &[ReleaseKey]) -> Self {
        let mut parts = Self::default();
        steps::take(open.len());
        for release in open.iter().filter_map(|key| state.release(*key)) {
            let Some(assignment) = release.assignments.get(&child) else { continue };
            if let Some(undo) = assignment.pending_undo() {
                if undo.fetched {
                    parts.undo_in_hand.get_or_insert(release.key);
                } else if !undo.rests() && !release.holds_undo(undo) {
                    parts.new_undo.get_or_insert((release.key, undo));
                }
            }
            match assignment.status {
                ChildStatus::Doing => {
                    if assignment.fetched {
                        parts.in_hand.get_or_insert(release.key);
                    }
                    parts.begun.get_or_insert((release, assignment));
                }
                // What it is to take back first it is offered again in a while.
                ChildStatus::Todo if assignment.rests_until().is_some() => {}
                ChildStatus::Todo if parts.to_begin.is_none() => {
                    let may = release.is_running() && !release.gates.holds(assignment);
                    parts.to_begin = may.then_some((release, assignment));
                }
                ChildStatus::Todo | ChildStatus::No | ChildStatus::Done | ChildStatus::Failed => {}
            }
        }
        parts
    }
}

/// Whether a child has something in hand anywhere: it may be silent then without being gone.
pub fn has_in_hand(state: &Snapshot, child: ChildKey) -> bool {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    open.iter().filter_map(|release| state.assignment(*release, child)).any(has_it_in_hand)
}

/// Whether the child has its part in a release in hand, or goes back right now.
pub fn has_it_in_hand(assignment: &Assignment) -> bool {
    is_in_hand(assignment) || assignment.pending_undo().is_some_and(|undo| undo.fetched)
}

/// Whether something that a child is to be offered rests: its next poll may end that, whatever waits for it meanwhile.
pub fn rests(state: &Snapshot, child: ChildKey) -> bool {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    let mut parts = open.iter().filter_map(|release| state.assignment(*release, child));
    parts.any(|assignment| assignment.rests_until().is_some())
}

/// The offers that a child has in hand and whose release is paused.
pub fn held(state: &Snapshot, child: ChildKey) -> Vec<String> {
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
pub fn is_offered(state: &Snapshot, release: ReleaseKey, child: ChildKey) -> bool {
    matches!(turn(state, child), NextAction::Offer { release: offered, .. } if offered == release)
}

/// Whether this very offer is what waits for the child.
pub fn is_next(state: &Snapshot, release: ReleaseKey, child: ChildKey, name: OfferName) -> bool {
    turn(state, child) == NextAction::Offer { release, name }
}

/// Whether a child's next offer has to wait for something that makes way in time. An undo that is overdue does not: a
/// child that does not come for it won't come for what follows either.
///
/// Nor does a release whose barrier holds the child: it may wait for others that are held in this one, and neither
/// would ever open.
pub fn is_behind_another(state: &Snapshot, release: ReleaseKey, child: ChildKey) -> bool {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    let is_held = |key: &ReleaseKey| {
        *key != release && state.release(*key).is_some_and(|other| other.holds_at_barrier(child))
    };
    if open.iter().any(is_held) {
        return false;
    }
    match turn(state, child) {
        NextAction::Idle => true,
        NextAction::Offer { release: first, .. } | NextAction::Queued { release: first }
            if first == release =>
        {
            false
        }
        NextAction::Offer { release: first, .. }
        | NextAction::Queued { release: first }
        | NextAction::Busy { release: first, .. } => {
            let undo = state.assignment(first, child).and_then(Assignment::pending_undo);
            undo.is_none_or(|undo| !undo.overdue)
        }
    }
}
