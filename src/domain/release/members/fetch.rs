//! `GET /release`: a child takes what it was offered.
//!
//! Deployed agents exit on any error here, so an offer that was ever shown is answered with 200: where it no
//! longer stands, with an empty strategy.

use std::{borrow::Cow, sync::Arc};

use super::call::Call;
use crate::{
    plan,
    plan::Why,
    release::{
        assignment::{Assignment, ManagementMode, Step},
        command::{Decision, Form, Offer, Refusal, Reply},
        decide::draft::Walk,
        lifecycle::{is_in_place, lacks_of},
        manager::{FEATURE_RETRY, Planned},
        next_action,
        offer::{OfferKind, OfferName, Unit},
        state::{Release, ReleaseState, Snapshot, State},
    },
};
use language::Strategy;
use model::{
    ChildKey, FEATURE_CLASSES, FEATURE_INTERIM, FEATURE_QUESTIONS, FEATURE_SERVICES, FEATURE_TRAFFIC, Now,
};

pub(in crate::release) fn decide(state: &State, child: &str, offer: &str, now: Now) -> Decision {
    let call = match Call::resolve(state, child, offer) {
        Ok(call) => call,
        Err(why) => return why.into(),
    };
    let never =
        || Decision::refused(Refusal::NeverOffered { child: child.to_owned(), offer: offer.to_owned() });
    let Some(mut walk) = Walk::start(state, call.release, call.key, now) else { return never() };
    walk.reinstate();
    let form = match call.name.kind {
        OfferKind::Undo(number) => undo(&mut walk, number),
        OfferKind::First | OfferKind::Stage(_) | OfferKind::Rollout(_) => work(&mut walk, call.name),
    };
    let Some(form) = form else { return never() };
    let offer = offer_of(state, call.release, call.key, &walk.assignment, call.name, form);
    Decision::new(walk.changes, Reply::Offer(offer))
}

/// The offer that a child is handed, or would be handed first in a release that has not begun; and nothing changes by
/// this. `Err` says why there is none.
pub fn peek(state: &Snapshot, release: &Release, child: ChildKey) -> Result<Offer, NoOffer> {
    let assignment = match release.assignments.get(&child) {
        Some(assignment) => Cow::Borrowed(assignment),
        None if release.state == ReleaseState::Planned => Cow::Owned(would_be(state, release, child)?),
        None => return Err(NoOffer::NoPart),
    };
    let (name, form) = match assignment.pending_undo() {
        Some(undo) => {
            let function = undo.functions.first().unwrap_or_default() as u8;
            let is_manager = assignment.is_whole();
            let form = if is_manager { Form::UndoOf { function } } else { Form::Undo { function } };
            (OfferName::undo(undo.number), form)
        }
        None if assignment.status.is_over() => return Err(NoOffer::Over),
        None => (assignment.offer_name(), form_for(&assignment, &release.strategy)),
    };
    Ok(offer_of(state, release, child, &assignment, name, form))
}

/// Why a child has no offer of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoOffer {
    NoPart,
    /// It takes no part, were the release to start now.
    Unfit(Why),
    Over,
}

/// The part of a child in a release that starts now.
fn would_be(state: &Snapshot, release: &Release, child: ChildKey) -> Result<Assignment, NoOffer> {
    let strategy = &release.strategy;
    let area = strategy.target.as_ref().and_then(|target| target.area.as_ref());
    let cover = area.map(|area| state.children.areas().cover(&area.polygons()));
    match plan::why_not(strategy, state, cover.as_ref(), child) {
        None => Err(NoOffer::NoPart),
        Some(Err(why)) => Err(NoOffer::Unfit(why)),
        Some(Ok(_)) => {
            let record = state.children.get(child).filter(|record| record.kind().is_manager());
            let lacks = lacks_of(state, release, child);
            Ok(match record {
                Some(record) => {
                    let planned = Planned { agents: record.counted_agents(), quotas: Vec::new() };
                    Assignment::new_whole(planned, 0).beginning(lacks, strategy)
                }
                None if is_in_place(state, strategy, child, lacks) => {
                    Assignment::new_in_place(0).beginning(lacks, strategy)
                }
                None => Assignment::new(0).lacking(lacks, strategy),
            })
        }
    }
}

fn offer_of(
    state: &Snapshot,
    release: &Release,
    child: ChildKey,
    assignment: &Assignment,
    name: OfferName,
    form: Form,
) -> Offer {
    let profile = state.children.get(child).and_then(|child| child.profile.as_deref());
    let knows = |feature| profile.is_some_and(|profile| profile.capabilities.has(feature));
    let form = match form {
        // Others would make nothing of the key, and those of the plain protocol are told nothing that is not of it.
        Form::Stage { stage }
            if knows(FEATURE_INTERIM) && release.strategy.interim(stage.into()).is_some() =>
        {
            Form::ReportedStage { stage }
        }
        Form::InPlace { group, .. } => Form::InPlace { is_reported: knows(FEATURE_INTERIM), group },
        form => form,
    };
    let strategy = match form {
        Form::Full => {
            let mut strategy = release.strategy_for(assignment);
            if let Some(above) = &mut strategy.from_parent {
                // One that doesn't know of it only says again how its release ended.
                above.retries &= knows(FEATURE_RETRY);
                if !knows(FEATURE_INTERIM) {
                    above.interim.clear();
                }
                above.classes &= knows(FEATURE_CLASSES);
                above.local_alpha = above.local_alpha.filter(|_| knows(FEATURE_TRAFFIC));
                above.salt = above.salt.take().filter(|_| knows(FEATURE_SERVICES));
            }
            for function in strategy.functions.iter_mut().filter(|_| !knows(FEATURE_TRAFFIC)) {
                (function.sticky, function.retry) = (None, None);
            }
            // Who is asked for silent agents knows the key; others would refuse the strategy for it.
            if let Some(rollout) = &mut strategy.rollout {
                rollout.silent_after = rollout.silent_after.filter(|_| knows(FEATURE_QUESTIONS));
            }
            Arc::new(strategy)
        }
        Form::InPlace { group, .. } => Arc::new(release.strategy_in_place(name.attempt, group)),
        // A release from above may be called otherwise here, and a manager below knows it by that.
        Form::UndoOf { .. } => {
            Arc::new(Strategy { id: release.id.clone(), ..Strategy::clone(&release.strategy) })
        }
        Form::Stage { .. }
        | Form::ReportedStage { .. }
        | Form::Rollout { .. }
        | Form::Undo { .. }
        | Form::Withdrawn => Arc::clone(&release.strategy),
    };
    Offer { release: release.key, strategy, name, form }
}

fn undo(walk: &mut Walk<'_>, number: u16) -> Option<Form> {
    let undo = walk.assignment.undo()?;
    if number > undo.number {
        return None;
    }
    let current = undo.functions.first().filter(|_| number == undo.number);
    let fetched = undo.fetched;
    let Some(function) = current else { return Some(Form::Withdrawn) };
    if !fetched {
        if !next_action::is_next(walk.state, walk.release.key, walk.child, OfferName::undo(number)) {
            // Something else is in hand; it is shown again after that.
            return Some(Form::Withdrawn);
        }
        walk.step(Step::UndoFetched);
    }
    let function = function as u8;
    let is_manager = walk.assignment.is_whole();
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
    if assignment.status.is_over() || !next_action::is_next(walk.state, walk.release.key, walk.child, name) {
        return Some(Form::Withdrawn);
    }
    let form = form_for(assignment, walk.strategy());
    walk.step(Step::Fetched);
    Some(form)
}

fn form_for(assignment: &Assignment, strategy: &Strategy) -> Form {
    match &assignment.led {
        ManagementMode::Whole(_) => Form::Full,
        ManagementMode::InPlace(_) => Form::InPlace { is_reported: false, group: assignment.group(strategy) },
        ManagementMode::Stepwise(steps) => form(steps.piece),
    }
}

/// The text that a piece is handed to an agent as.
pub const fn form(piece: Unit) -> Form {
    match piece {
        // No agent that is led stepwise is handed one.
        Unit::Whole => Form::Withdrawn,
        Unit::Stage(stage) => Form::Stage { stage },
        Unit::Rollout(function) => Form::Rollout { function },
    }
}
