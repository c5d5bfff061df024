//! `POST /end_stage`: may the child end the stage it is in? Only the questions that published data can't answer
//! come here.

use super::{Call, report::find_slot, walk::Walk};
use crate::{
    model::{Now, Outcome, StageStatus},
    release::{
        assignment::Slot,
        command::{Decision, Refusal, Reply},
        offer::{OfferKind, Piece},
        state::State,
    },
    strategy::render,
};

pub(super) fn decide(state: &State, child: &str, offer: &str, stage: &str, now: Now) -> Decision {
    let call = match Call::resolve(state, child, offer) {
        Ok(call) => call,
        Err(refusal) => return Decision::refused(refusal),
    };
    let unknown = || Refusal::UnknownStage { offer: offer.to_owned(), stage: stage.to_owned() };
    let Some(mut walk) = Walk::start(state, call.release, call.key, now) else {
        let (child, offer) = (child.to_owned(), offer.to_owned());
        return Decision::refused(Refusal::NeverOffered { child, offer });
    };
    walk.reinstate();
    if let OfferKind::Undo(number) = call.name.kind {
        let given = walk.assignment.undo.as_deref().is_some_and(|undo| number <= undo.number);
        let known = given && stage == render::UNDO_STAGE;
        return if known {
            Decision::new(walk.changes, Reply::EndStage(true))
        } else {
            Decision::refused(unknown())
        };
    }
    let Some(slot) = find_slot(walk.strategy(), call.name, stage) else {
        return Decision::refused(unknown());
    };
    let current = call.name == walk.assignment.offer_name() && !walk.assignment.status.is_over();
    let end = if current { of_current(&mut walk, slot) } else { true };
    Decision::new(walk.changes, Reply::EndStage(end))
}

fn of_current(walk: &mut Walk<'_>, slot: Slot) -> bool {
    if !walk.assignment.fetched {
        return false;
    }
    if slot == walk.assignment.slot {
        return matches!(walk.assignment.piece, Piece::Rollout(_))
            || walk.assignment.stage_status >= StageStatus::ShouldEnd;
    }
    if walk.assignment.mark(slot).is_some() {
        return true;
    }
    let later = matches!(walk.assignment.piece, Piece::Whole)
        && slot.stage_index().is_some_and(|stage| walk.strategy().success_path().contains(&stage));
    if later {
        // It is in a later stage already: what it reported of this one never came.
        walk.give_up(Outcome::Lost);
    }
    later
}
