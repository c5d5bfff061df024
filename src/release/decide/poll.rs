//! `POST /poll`: registers, notices what a poll shows, and lets the child know what waits for it.

use std::sync::Arc;

use super::walk::Walk;
use crate::{
    model::{ChildKey, ChildKind, ChildStatus, Cordon, Now, Outcome},
    release::{
        apply::area_hash,
        assignment::{Assignment, Step},
        change::{Arrival, Change},
        command::{Decision, Poll, Refusal, Reply, Seen},
        settings::SUCCESSOR_SILENCE,
        state::{Child, State},
    },
};

/// Polls after a download that show that the result was lost: a single one may have been under way.
const POLLS_THAT_SHOW_A_LOSS: u8 = 2;

pub(super) fn decide(state: &State, seen: &dyn Seen, poll: &Poll, now: Now) -> Decision {
    match poll.child.as_ref().and_then(|id| state.children.by_id(id.as_str())) {
        None => arrive(state, seen, poll, now),
        Some((key, child)) => call_again(state, seen, poll, key, child, now),
    }
}

fn arrive(state: &State, seen: &dyn Seen, poll: &Poll, now: Now) -> Decision {
    let limit = state.settings.max_children;
    if state.children.len() >= limit {
        return Decision::refused(Refusal::Limit { what: "children", limit });
    }
    let arrival = if poll.child.is_some() { Arrival::Adopted } else { Arrival::Registered };
    let id = poll.child.clone().unwrap_or_else(|| poll.fresh.clone());
    let record = Child {
        id: id.clone(),
        area: poll.area.clone(),
        agents: poll.agents,
        born: now,
        // A child that brings an id along has polled before.
        called_again: arrival == Arrival::Adopted,
        cordon: Cordon::Open,
        profile: poll.profile.clone().map(Box::new),
        labels: None,
        open: smallvec::SmallVec::new(),
    };
    let key = state.children.next_key();
    let mut changes = vec![Change::ChildArrived { child: key, arrival, record: Box::new(record) }];
    if arrival == Arrival::Registered {
        changes.extend(succeed(state, seen, poll.area.as_deref(), key, now));
    }
    Decision::new(changes, Reply::Polled { child: id, key, offer: None })
}

fn call_again(
    state: &State,
    seen: &dyn Seen,
    poll: &Poll,
    key: ChildKey,
    child: &Child,
    now: Now,
) -> Decision {
    let mut changes = Vec::new();
    if !child.called_again {
        changes.push(Change::ChildCalledAgain { child: key });
    }
    if poll.area.is_some() && poll.area != child.area {
        changes.push(Change::ChildMoved { child: key, area: poll.area.clone() });
    }
    if poll.agents != child.agents || poll.profile.as_ref() != child.profile.as_deref() {
        let profile = poll.profile.clone().map(Box::new);
        changes.push(Change::ChildReported { child: key, agents: poll.agents, profile });
    }
    for release in child.open.iter().filter_map(|key| state.release(*key)) {
        let Some(mut walk) = Walk::start(state, release, key, now) else { continue };
        walk.reinstate();
        notice(&mut walk, child.kind());
        changes.append(&mut walk.changes);
    }
    if !child.called_again {
        changes.extend(succeed(state, seen, child.area.as_deref(), key, now));
    }
    Decision::new(changes, Reply::Polled { child: child.id.clone(), key, offer: None })
}

/// An agent polls only when it has nothing in hand. A manager polls always.
fn notice(walk: &mut Walk<'_>, kind: ChildKind) {
    if kind == ChildKind::Rm {
        return;
    }
    let undo = walk.assignment.pending_undo().filter(|undo| undo.fetched).map(|undo| undo.functions);
    if let Some(functions) = undo {
        walk.step(Step::PolledWhileBusy);
        let polls = walk.assignment.pending_undo().map_or(0, |undo| undo.polls);
        if polls >= POLLS_THAT_SHOW_A_LOSS {
            walk.step(Step::UndoOffered { functions });
        }
    } else if walk.assignment.status == ChildStatus::Doing && walk.assignment.fetched {
        walk.step(Step::PolledWhileBusy);
        if walk.assignment.polls >= POLLS_THAT_SHOW_A_LOSS {
            walk.give_up(Outcome::Lost);
        }
    }
}

/// A newcomer with the very area of a silent child that has work in hand is that child after a restart: it takes
/// back what that one may have left running.
fn succeed(state: &State, seen: &dyn Seen, area: Option<&str>, newcomer: ChildKey, now: Now) -> Vec<Change> {
    let stands_in_already = state.children.get(newcomer).is_some_and(|record| {
        let mut parts = record.open.iter().filter_map(|release| state.assignment(*release, newcomer));
        parts.any(|assignment| assignment.predecessor.is_some())
    });
    let Some(old) =
        area.filter(|_| !stands_in_already).and_then(|area| predecessor(state, seen, area, newcomer, now))
    else {
        return Vec::new();
    };
    let Some(record) = state.children.get(old) else { return Vec::new() };
    let mut changes = Vec::new();
    for release in record.open.iter().filter_map(|key| state.release(*key)) {
        let Some(mut walk) = Walk::start(state, release, old, now) else { continue };
        replace(&mut walk, newcomer);
        changes.append(&mut walk.changes);
    }
    changes
}

/// Ends what a child had begun in one release, and hands what is to be undone to the one that took its place.
fn replace(walk: &mut Walk<'_>, newcomer: ChildKey) {
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
    walk.step(Step::ReplacedBy { successor: newcomer });
    if functions.is_empty() {
        return;
    }
    walk.push_for(newcomer, Step::StandsInFor { predecessor: walk.child, functions }, None);
    // One that has begun itself replaces what it found by what it tests.
    let has_begun = walk.release.assignments.get(&newcomer).is_some_and(Assignment::has_begun);
    if !has_begun {
        walk.push_for(newcomer, Step::UndoOffered { functions }, None);
    }
}

fn predecessor(state: &State, seen: &dyn Seen, area: &str, newcomer: ChildKey, now: Now) -> Option<ChildKey> {
    let silent = |child: ChildKey| {
        seen.last_call(child)
            .is_none_or(|last| now.served_ms.saturating_sub(last) >= SUCCESSOR_SILENCE.as_millis() as u64)
    };
    let same_area = |child: &Child| {
        child.kind() == ChildKind::Agent && child.area.as_ref().map(Arc::as_ref) == Some(area)
    };
    state.busy_areas.get(&area_hash(area))?.iter().copied().find(|child| {
        *child != newcomer && state.children.get(*child).is_some_and(same_area) && silent(*child)
    })
}
