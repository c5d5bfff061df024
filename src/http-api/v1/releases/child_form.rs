//! Children of a release as the API shows them.

use super::form;
use crate::v1::time::{of_served, rfc3339};
use domain::release::{
    assignment::{Assignment, StepIndex},
    command::LastSeen,
    offer::OfferName,
    state::Release,
    waits::LineInputs,
};
use engine::{json_columns, questions::children::place, unreadable::Unreadable};
use language::{Strategy, render};
use model::{ChildKey, StageStatus};
use protocol::api::{ReleaseChild, StageResult};
use store::{StoreError, rows::StageResultRow};

/// A child and its number.
#[derive(Debug)]
pub struct ListedChild {
    pub key: ChildKey,
    pub child: ReleaseChild,
}

/// A child of a release, without its results.
pub fn child<S: LastSeen + ?Sized>(
    look: &LineInputs<'_, S>,
    release: &Release,
    key: ChildKey,
    assignment: &Assignment,
) -> ReleaseChild {
    let record = look.state.children.get(key);
    let offer = match assignment.pending_undo() {
        Some(undo) => Some(OfferName::undo(undo.number)),
        None => (!assignment.status.is_over()).then(|| assignment.offer_name()),
    };
    ReleaseChild {
        child: record.map_or_else(|| format!("forgotten child {}", key.0), |child| child.id.to_string()),
        name: record.and_then(|child| child.profile.as_ref()?.name.clone()),
        place: place(look.state, key),
        status: assignment.status.name().to_owned(),
        outcome: assignment.outcome.map(|outcome| outcome.name().to_owned()),
        waits_for: runs_only(&release.strategy, assignment) + &look.child(release, key, assignment),
        attempt: assignment.attempt,
        wave: assignment.wave + 1,
        offer: offer.map(|name| name.id(release.id.as_str())),
        stage: stage_name(&release.strategy, assignment.slot).map(str::to_owned),
        stage_status: assignment.stage_status.name().to_owned(),
        last_call: look.last_call(key).map(|at| of_served(at, look.now)),
        agents: assignment.is_whole().then(|| form::agents(assignment.agents())),
        results: Vec::new(),
    }
}

/// Said in front of what it waits for, where it does not run all functions.
fn runs_only(strategy: &Strategy, assignment: &Assignment) -> String {
    if assignment.lacks().is_empty() {
        return String::new();
    }
    let functions = strategy.subject_keys().enumerate();
    let runs = functions.filter(|(at, _)| !assignment.lacks().contains(*at)).map(|(_, key)| key);
    format!("runs only {}: ", runs.collect::<Vec<_>>().join(", "))
}

/// What a stage is called in offers and results.
pub fn stage_name(strategy: &Strategy, slot: StepIndex) -> Option<&str> {
    match slot.stage_index() {
        Some(index) => strategy.stages.get(index).map(|stage| stage.name.as_str()),
        None => Some(render::ROLLOUT_STAGE),
    }
}

/// What a child reported of a stage; `null` for numbers that can't be read.
pub fn result(strategy: &Strategy, row: &StageResultRow, unreadable: &Unreadable) -> StageResult {
    let note = |error: &StoreError| unreadable.note(error);
    let status = json_columns::stage_status(row).inspect_err(note).ok();
    let slot = json_columns::slot_of(row, strategy).inspect_err(note).ok();
    StageResult {
        attempt: json_columns::attempt(row).inspect_err(note).unwrap_or_default(),
        stage: slot.and_then(|slot| stage_name(strategy, slot)).unwrap_or_default().to_owned(),
        status: status.map_or("?", StageStatus::name).to_owned(),
        at: rfc3339(row.at_ms),
        preliminary: status.is_some_and(|status| !status.is_over()),
        summary: json_columns::shown_summary(row).inspect_err(note).unwrap_or_default(),
    }
}
