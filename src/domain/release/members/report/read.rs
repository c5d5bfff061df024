//! Which stage of which offer a summary is about.

use std::sync::Arc;

use crate::release::{
    assignment::{Assignment, StepIndex},
    change::Change,
    command::Refusal,
    decide::draft::Walk,
    members,
    offer::{OfferName, Unit},
    summary::{Received, StoredSummary, Summary},
};
use language::{Action, Strategy, render};
use model::StageStatus;

/// One summary, and which stage of which offer it is about.
pub(super) struct Report<'s> {
    pub(super) name: OfferName,
    pub(super) offer: &'s str,
    pub(super) piece: Unit,
    pub(super) slot: StepIndex,
    pub(super) received: &'s Arc<Received>,
    /// What the child says that it runs next, where its offer says otherwise.
    says_next: Option<&'s str>,
}

impl<'s> Report<'s> {
    pub(super) fn read(
        walk: &Walk<'_>,
        name: OfferName,
        offer: &'s str,
        received: &'s Arc<Received>,
    ) -> Result<Self, Refusal> {
        let summary = &received.summary;
        let is_told = matches!(summary.status, StageStatus::InProgress | StageStatus::SuccessWaiting);
        if !is_told && !summary.status.is_over() {
            return Err(Refusal::NotAReport(summary.status));
        }
        let strategy = walk.strategy();
        let stage = || summary.stage_name.clone().unwrap_or_default();
        let piece = walk
            .assignment
            .piece_of(name, strategy)
            .filter(|_| walk.assignment.was_offered(name, strategy))
            .ok_or_else(|| Refusal::NotStarted { offer: offer.to_owned(), stage: stage() })?;
        let slot = match &summary.stage_name {
            Some(stage) => find_slot(&walk.assignment, strategy, piece, stage),
            None => Some(unnamed(walk, name, piece, received.digest)),
        };
        let slot = slot.ok_or_else(|| Refusal::UnknownStage { offer: offer.to_owned(), stage: stage() })?;
        let says_next = says_otherwise(walk, piece, slot, summary);
        Ok(Self { name, offer, piece, slot, received, says_next })
    }

    pub(super) fn summary(&self) -> &'s Summary {
        &self.received.summary
    }

    pub(super) fn keep(&self) -> StoredSummary {
        StoredSummary { report: Arc::clone(self.received), says_next: self.says_next.map(str::to_owned) }
    }

    pub(super) fn waits(&self) -> bool {
        self.summary().status == StageStatus::SuccessWaiting
    }

    /// It says how far a stage is that goes on.
    pub(super) fn is_preliminary(&self) -> bool {
        self.waits() || self.summary().status == StageStatus::InProgress
    }

    /// By which a repeat is known once it came too late.
    pub(super) fn late_digest(&self) -> u64 {
        self.received.digest ^ u64::from(self.slot.0).rotate_left(56) ^ u64::from(self.name.attempt)
    }

    pub(super) fn not_started(&self, strategy: &Strategy) -> Refusal {
        Refusal::NotStarted { offer: self.offer.to_owned(), stage: stage_name(strategy, self.slot) }
    }

    /// The answer where a result of this stage is stored.
    pub(super) fn beside(&self, stored: u64, strategy: &Strategy) -> Result<(), Refusal> {
        if stored == self.received.digest || self.is_preliminary() {
            return Ok(());
        }
        let (offer, stage) = (self.offer.to_owned(), stage_name(strategy, self.slot));
        Err(Refusal::EndedOtherwise { offer, stage })
    }

    pub(super) fn keep_late(&self, walk: &Walk<'_>) -> Change {
        Change::Members(members::Change::LateKept {
            release: walk.release.key,
            child: walk.child,
            stage: Some(stage_name(walk.strategy(), self.slot)),
            report: Arc::clone(self.received),
        })
    }
}

/// What a child says that it runs after a stage that ended, where its offer says otherwise. The offer is what counts here;
/// a child that does something else is worth knowing of.
fn says_otherwise<'s>(
    walk: &Walk<'_>,
    piece: Unit,
    slot: StepIndex,
    summary: &'s Summary,
) -> Option<&'s str> {
    let said = summary.says_next.as_deref().filter(|_| summary.status.is_over())?;
    // A manager that says nothing leaves it to the strategy.
    if walk.assignment.is_whole() && said.is_empty() {
        return None;
    }
    let strategy = walk.strategy();
    let success = summary.status == StageStatus::Completed || summary.is_kept();
    let next = slot.stage_index().filter(|_| piece == Unit::Whole && summary.status != StageStatus::Error);
    let next = match next.map(|stage| strategy.next(stage, success)) {
        Some(Action::Stage(next)) => strategy.stages.get(next).map_or("", |stage| &stage.name),
        Some(Action::Rollout | Action::Rollback) | None => "",
    };
    (said != next).then_some(said)
}

/// The stage that a summary without a name is about: the one the child is in, unless it repeats the last stored.
fn unnamed(walk: &Walk<'_>, name: OfferName, piece: Unit, digest: u64) -> StepIndex {
    if piece != Unit::Whole {
        return piece.slot();
    }
    let assignment = &walk.assignment;
    if assignment.is_in_place() {
        // It may go any way, so only where it is now tells.
        let last = assignment.marks().last().filter(|mark| mark.digest == digest);
        return last.map_or(assignment.slot, |mark| mark.slot);
    }
    let first = walk.strategy().first_stage_of(assignment.group(walk.strategy()));
    let path = walk.strategy().success_path_from(first);
    let before = |attempt: u16| attempt >= name.attempt && attempt < assignment.named;
    let is_current = name.attempt == assignment.named;
    let ended = |stage: &usize| {
        let slot = StepIndex::stage(*stage);
        if is_current {
            return assignment.mark(slot).map(|mark| mark.digest);
        }
        assignment
            .marks()
            .iter()
            .find(|mark| mark.slot == slot && before(mark.attempt))
            .map(|mark| mark.digest)
    };
    let last = path.iter().rposition(|stage| ended(stage).is_some());
    let stage = match last {
        None => path.first(),
        Some(last) if ended(&path[last]) == Some(digest) => path.get(last),
        Some(last) => path.get(last + 1).or_else(|| path.get(last)),
    };
    StepIndex::stage(stage.copied().unwrap_or_default())
}

/// The slot of a stage by its name in an offer: `None` if that offer has none of this name. All roll-outs call theirs
/// the same: which function one is of, only the offer tells.
pub(in crate::release::members) fn find_slot(
    assignment: &Assignment,
    strategy: &Strategy,
    piece: Unit,
    stage: &str,
) -> Option<StepIndex> {
    let slot = match piece {
        Unit::Rollout(function) => {
            return (stage == render::ROLLOUT_STAGE).then_some(StepIndex::rollout(function));
        }
        Unit::Stage(index) => Some(usize::from(index)),
        Unit::Whole => None,
    };
    let found = strategy.stages.iter().position(|other| other.name == stage)?;
    let group = assignment.group(strategy);
    let is_listed = match slot {
        Some(only) => only == found,
        // It walks the whole graph of its group, and says so of each stage.
        None if assignment.is_in_place() => strategy.group_of_stage(found) == group,
        None => strategy.success_path_from(strategy.first_stage_of(group)).contains(&found),
    };
    is_listed.then_some(StepIndex::stage(found))
}

/// What a stage is called in an offer.
fn stage_name(strategy: &Strategy, slot: StepIndex) -> String {
    match slot.stage_index() {
        Some(index) => strategy.stages.get(index).map_or_else(String::new, |stage| stage.name.clone()),
        None => render::ROLLOUT_STAGE.to_owned(),
    }
}
