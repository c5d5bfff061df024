//! `POST /poll`: registers, notices what a poll shows, and lets the child know what waits for it.

use super::{draft::Walk, successor::succeed};
use crate::{
    children::{
        self, Arrival, Child, Poll, Profile,
        registration::{Live, Registration},
    },
    release::{
        assignment::Step,
        change::Change,
        command::{Decision, LastSeen, Refusal, Reply},
        state::State,
    },
};
use model::{ChildKey, ChildStatus, Now, Outcome, TENANT_LABEL, address::for_limits};

/// Polls after a download that show that the result was lost: a single one may have been under way.
const POLLS_THAT_SHOW_A_LOSS: u8 = 2;

pub(in crate::release) fn decide(state: &State, seen: &dyn LastSeen, poll: &Poll, now: Now) -> Decision {
    // The id that it gets is known where its first poll came twice, and it had a part in making that up.
    let id = poll.child.as_ref().unwrap_or(&poll.fresh);
    match state.children.by_id(id.as_str()) {
        None => arrive(state, poll, now),
        Some((key, child)) => call_again(state, seen, poll, key, child, now),
    }
}

fn arrive(state: &State, poll: &Poll, now: Now) -> Decision {
    let limit = state.settings.max_children;
    if state.children.len() >= limit {
        return Decision::refused(Refusal::Limit { what: "children", limit });
    }
    let Some(key) = state.children.next_key() else {
        let limit = u32::MAX as usize;
        return Decision::refused(Refusal::Limit { what: "ids that one store ever gave", limit });
    };
    let arrival = if poll.child.is_some() { Arrival::Adopted } else { Arrival::Registered };
    if arrival == Arrival::Adopted && !may_bring_an_id(state, poll) {
        return Decision::refused(Refusal::TooManyAdopted { limit: state.settings.max_adopted });
    }
    let id = poll.child.clone().unwrap_or_else(|| poll.fresh.clone());
    let registration = Registration {
        id: id.clone(),
        key,
        area: poll.area.clone(),
        address: poll.address,
        agents: poll.agents,
        profile: poll.profile.clone().map(Box::new),
        live: Live::default(),
    };
    // A child that brings an id along has polled before.
    let adopted = arrival == Arrival::Adopted;
    let mut record = Child { called_again: adopted, unproven: adopted, ..Child::new(registration, now) };
    if let Some(tenant) = &poll.tenant {
        let labels = record.labels.get_or_insert_default();
        labels.insert(TENANT_LABEL.to_owned(), tenant.to_string());
    }
    let arrived =
        Change::Children(children::Change::Arrived { child: key, arrival, record: Box::new(record) });
    Decision::new(vec![arrived], Reply::Polled { child: id, key, offer: None })
}

/// Whoever reinstalls a manager has a whole fleet that brings its ids along, and may have it behind one address; but
/// anybody can make up ids. On the machine itself nobody is limited.
fn may_bring_an_id(state: &State, poll: &Poll) -> bool {
    let address = poll.address.map(for_limits).filter(|address| !address.is_loopback());
    address.is_none_or(|address| state.books.unproven_from(address) < state.settings.max_adopted)
}

fn call_again(
    state: &State,
    seen: &dyn LastSeen,
    poll: &Poll,
    key: ChildKey,
    child: &Child,
    now: Now,
) -> Decision {
    let mut changes = signs_of_life(key, child);
    changes.extend(says_anew(key, child, poll, now));
    if let Some(address) = poll.address.filter(|_| poll.address != child.address) {
        changes.push(Change::Children(children::Change::CalledFrom { child: key, address }));
    }
    for release in child.open.iter().filter_map(|key| state.release(*key)) {
        let Some(mut walk) = Walk::start(state, release, key, now) else { continue };
        walk.reinstate();
        notice(&mut walk, child, poll, now);
        if walk.assignment.rests_until().is_some_and(|until| until <= now.served_ms) {
            walk.step(Step::Rested);
        }
        changes.append(&mut walk.changes);
    }
    if !child.called_again {
        changes.extend(succeed(state, seen, key, now));
    }
    Decision::new(changes, Reply::Polled { child: child.id.clone(), key, offer: None })
}

/// What a child says of itself that is not known. It says all of it in each poll, so nothing is lost if it is said too often to be
/// stored: one of the next polls brings it.
fn says_anew(key: ChildKey, child: &Child, poll: &Poll, now: Now) -> Vec<Change> {
    let has_moved = poll.area.is_some() && poll.area != child.area;
    let is_other = poll.agents != child.agents || poll.profile.as_ref() != child.profile.as_deref();
    if !has_moved && !is_other {
        return Vec::new();
    }
    if !child.pace.allows(now) {
        // What a manager says grows with those below it.
        let is_conflict = !child.kind().is_manager() && child.pace.tells_conflicts(now);
        let differs = is_conflict.then(|| differs(child, poll));
        let said = differs.map(|differs| children::Change::SaysOtherwise { child: key, differs, now });
        return said.map(Change::Children).into_iter().collect();
    }
    let moved = has_moved.then(|| children::Change::Moved { child: key, area: poll.area.clone() });
    let reported = is_other.then(|| children::Change::Reported {
        child: key,
        agents: poll.agents,
        profile: poll.profile.clone().map(Box::new),
    });
    let paced = children::Change::Paced { child: key, now };
    moved.into_iter().chain(reported).chain([paced]).map(Change::Children).collect()
}

/// In what a poll differs from what is known of the child, for people.
fn differs(child: &Child, poll: &Poll) -> Vec<String> {
    let (known, said) = (child.profile.as_deref(), poll.profile.as_ref());
    let name = |of: Option<&Profile>| of.and_then(|of| of.name.clone()).unwrap_or_else(|| "none".to_owned());
    let (was, is) = (name(known), name(said));
    let found = [
        (was != is).then(|| format!("name: {was} or {is}")),
        (known.map(|of| of.kind) != said.map(|of| of.kind)).then(|| "kind".to_owned()),
        (known.map(|of| &of.capabilities) != said.map(|of| &of.capabilities))
            .then(|| "capabilities".to_owned()),
        (poll.agents != child.agents)
            .then(|| format!("number of children: {} or {}", child.agents, poll.agents)),
        (poll.area.is_some() && poll.area != child.area).then(|| "area".to_owned()),
    ];
    found.into_iter().flatten().collect()
}

/// What any call of a child shows: it is no ghost, and nobody else.
pub(in crate::release) fn signs_of_life(key: ChildKey, child: &Child) -> Vec<Change> {
    let again =
        (!child.called_again).then_some(Change::Children(children::Change::CalledAgain { child: key }));
    let back = child.replaced.is_some().then_some(Change::Children(children::Change::Back { child: key }));
    again.into_iter().chain(back).collect()
}

/// An agent polls only when it has nothing in hand. A manager polls always, and so does an agent that walks through a whole
/// strategy; one that doesn't say so any more is another program, and has it no longer.
fn notice(walk: &mut Walk<'_>, child: &Child, poll: &Poll, now: Now) {
    let says_so = poll.profile.as_ref().is_some_and(Profile::leads_itself);
    if child.kind().is_manager() || walk.assignment.polls_always(says_so) {
        return;
    }
    if walk.assignment.pending_undo().is_some_and(|undo| undo.fetched) {
        walk.step(Step::PolledWhileBusy);
        if let Some(undo) = walk.assignment.pending_undo()
            && undo.polls >= POLLS_THAT_SHOW_A_LOSS
        {
            // One result may be lost on any way.
            let rest_ms = (undo.failures > 0).then(|| undo.rest_ms(walk.release.key, walk.child));
            walk.fail_undo(rest_ms, None, now);
        }
    } else if walk.assignment.status == ChildStatus::Doing && walk.assignment.fetched {
        walk.step(Step::PolledWhileBusy);
        if walk.assignment.polls >= POLLS_THAT_SHOW_A_LOSS {
            walk.give_up(Outcome::Lost);
        }
    } else if walk.assignment.is_in_hand() {
        // It knows now that it is over, or never got far with it.
        walk.step(Step::PolledWhileBusy);
    }
}
