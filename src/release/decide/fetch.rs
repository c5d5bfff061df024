//! `GET /release`: a child takes what it was offered.
//!
//! Deployed agents exit on any error here, so an offer that was ever shown is answered with 200: where it no
//! longer stands, with an empty strategy.

use std::sync::Arc;

use super::{Call, walk::Walk};
use crate::{
    model::Now,
    release::{
        assignment::{Assignment, Step},
        by_itself,
        command::{Decision, Form, Offer, Refusal, Reply},
        offer::{OfferKind, OfferName, Piece},
        turn,
    },
    strategy::Strategy,
};

pub(super) fn decide(state: &crate::release::state::State, child: &str, offer: &str, now: Now) -> Decision {
    let call = match Call::resolve(state, child, offer) {
        Ok(call) => call,
        Err(refusal) => return Decision::refused(refusal),
    };
    let never =
        || Decision::refused(Refusal::NeverOffered { child: child.to_owned(), offer: offer.to_owned() });
    let Some(mut walk) = Walk::start(state, call.release, call.key, now) else { return never() };
    walk.reinstate();
    let form = match call.name.kind {
        OfferKind::Undo(number) => undo(&mut walk, number),
        _ => work(&mut walk, call.name),
    };
    let Some(form) = form else { return never() };
    let is_full = form == Form::Full;
    let release = call.release;
    let strategy = match form {
        Form::Full => Arc::new(release.strategy_for(&walk.assignment)),
        // A release from above may be called otherwise here, and a manager below knows it by that.
        Form::UndoOf { .. } => {
            Arc::new(Strategy { id: release.id.clone(), ..Strategy::clone(&release.strategy) })
        }
        _ => Arc::clone(&release.strategy),
    };
    let area = state.children.get(call.key).and_then(|child| child.area.clone()).filter(|_| is_full);
    let offer = Offer { release: release.key, strategy, name: call.name, form, area };
    Decision::new(walk.changes, Reply::Offer(offer))
}

fn undo(walk: &mut Walk<'_>, number: u16) -> Option<Form> {
    let undo = walk.assignment.undo.as_deref()?;
    if number > undo.number {
        return None;
    }
    let current = undo.functions.first().filter(|_| number == undo.number);
    let fetched = undo.fetched;
    let Some(function) = current else { return Some(Form::Withdrawn) };
    if !fetched {
        if !turn::is_next(walk.state, walk.release.key, walk.child, OfferName::undo(number)) {
            // Something else is in hand; it is shown again after that.
            return Some(Form::Withdrawn);
        }
        walk.step(Step::UndoFetched);
    }
    let function = function as u8;
    let is_manager = walk.assignment.manager.is_some();
    Some(if is_manager { Form::UndoOf { function } } else { Form::Undo { function } })
}

fn work(walk: &mut Walk<'_>, name: OfferName) -> Option<Form> {
    let assignment = &walk.assignment;
    if !assignment.was_offered(name, walk.strategy()) {
        return None;
    }
    if name != assignment.offer_name() {
        return Some(Form::Withdrawn);
    }
    if assignment.fetched {
        return Some(form_for(assignment, walk.strategy()));
    }
    if assignment.status.is_over() || !turn::is_next(walk.state, walk.release.key, walk.child, name) {
        return Some(Form::Withdrawn);
    }
    let form = form_for(assignment, walk.strategy());
    walk.step(Step::Fetched);
    Some(form)
}

fn form_for(assignment: &Assignment, strategy: &Strategy) -> Form {
    match assignment.manager {
        Some(_) => Form::Full,
        None if assignment.by_itself => by_itself::form(assignment.piece, strategy),
        None => form(assignment.piece),
    }
}

/// The text that a piece is handed to an agent as.
pub const fn form(piece: Piece) -> Form {
    match piece {
        // No agent is handed one.
        Piece::Whole => Form::Withdrawn,
        Piece::Stage(stage) => Form::Stage { stage },
        Piece::Rollout(function) => Form::Rollout { function },
    }
}
