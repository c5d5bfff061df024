//! `POST /end_stage`: may the child end the stage it is in? Only the questions that published data can't answer
//! come here.

use std::collections::BTreeMap;

use super::{call::Call, report::find_slot};
use crate::release::{
    assignment::{Assignment, StepIndex},
    command::{Decision, Refusal, Reply},
    decide::draft::Walk,
    offer::{OfferKind, OfferName, Unit},
    state::State,
};
use language::render;
use model::{ChildStatus, Now, Outcome, StageStatus};

pub(in crate::release) fn decide(
    state: &State,
    child: &str,
    (offer, stage): (&str, &str),
    failures: Option<u32>,
    now: Now,
) -> Decision {
    let call = match Call::resolve(state, child, offer) {
        Ok(call) => call,
        Err(why) => return why.into(),
    };
    let unknown = || Refusal::UnknownStage { offer: offer.to_owned(), stage: stage.to_owned() };
    let Some(mut walk) = Walk::start(state, call.release, call.key, now) else {
        let (child, offer) = (child.to_owned(), offer.to_owned());
        return Decision::refused(Refusal::NeverOffered { child, offer });
    };
    walk.reinstate();
    if let OfferKind::Undo(number) = call.name.kind {
        let given = walk.assignment.undo().is_some_and(|undo| number <= undo.number);
        let known = given && stage == render::UNDO_STAGE;
        return if known {
            let (skip, winner, shares) = (Vec::new(), None, BTreeMap::new());
            let reply = Reply::EndStage { end: true, rollback: false, skip, winner, shares, accepted: false };
            Decision::new(walk.changes, reply)
        } else {
            Decision { changes: walk.changes, answer: Err(unknown().into()) }
        };
    }
    let piece = walk.assignment.piece_of(call.name, walk.strategy());
    let slot = piece.and_then(|piece| find_slot(&walk.assignment, walk.strategy(), piece, stage));
    let Some(slot) = slot.filter(|_| walk.assignment.was_offered(call.name, walk.strategy())) else {
        return Decision { changes: walk.changes, answer: Err(unknown().into()) };
    };
    let current = call.name == walk.assignment.offer_name() && !walk.assignment.status.is_over();
    // What it would do by itself after this is what it is to wait with.
    let waits = walk.assignment.fetched && walk.release.holds_back(&walk.assignment);
    let end = if current { of_current(&mut walk, slot) } else { !waits };
    let rollback = !waits && is_taken_back(&walk.assignment, call.name);
    let walks = walk.assignment.is_whole() || walk.assignment.is_in_place();
    let skip = if walks { walk.release.skipped_names() } else { Vec::new() };
    let winner = walk.release.winner_for(state, walk.child).filter(|_| walk.assignment.is_in_place());
    let is_told = current && walk.assignment.is_in_place();
    let shares = if is_told { walk.release.shares_for(state, walk.child) } else { BTreeMap::new() };
    let told = walk.assignment.whole().filter(|_| current && !walk.assignment.is_undecided());
    let accepted = failures.is_some_and(|asked| told.is_some_and(|manager| manager.failures >= asked));
    // It would have another one win than the others do.
    let end = end && !walk.release.knows_no_winner(state, walk.child, &walk.assignment);
    Decision::new(walk.changes, Reply::EndStage { end, rollback, skip, winner, shares, accepted })
}

/// Whether a child that still walks through this is to take it back. A manager that was told to continue it with another
/// offer is not; an agent is, also where its stage gets no calls: it would go on with what comes next.
fn is_taken_back(assignment: &Assignment, name: OfferName) -> bool {
    if assignment.is_in_place() {
        let is_over = matches!(assignment.status, ChildStatus::No | ChildStatus::Failed);
        let is_current = name.attempt == assignment.named;
        return !is_current || is_over || assignment.pending_undo().is_some() || assignment.is_told_idle();
    }
    let Some(manager) = assignment.whole() else { return false };
    if name.attempt < assignment.named {
        return manager.continues.is_none();
    }
    let is_over = matches!(assignment.status, ChildStatus::No | ChildStatus::Failed);
    is_over || assignment.pending_undo().is_some()
}

fn of_current(walk: &mut Walk<'_>, slot: StepIndex) -> bool {
    if !walk.assignment.fetched {
        return false;
    }
    if slot == walk.assignment.slot {
        return matches!(walk.assignment.piece(), Unit::Rollout(_))
            || (walk.assignment.stage_status >= StageStatus::ShouldEnd && !walk.assignment.is_undecided());
    }
    if walk.assignment.mark(slot).is_some() {
        return true;
    }
    // It is in a later stage already: what it reported of the current one never came.
    walk.give_up(Outcome::Lost);
    true
}
