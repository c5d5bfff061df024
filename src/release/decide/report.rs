//! `POST /result`: what a child reports of its stages, and what follows for it.

use super::{Call, fetch::rolls_out_itself, walk::Walk};
use crate::{
    model::{ChildStatus, Now, Outcome, StageStatus},
    release::{
        assignment::{Shows, Slot, Step, first_piece},
        change::{Change, Variant},
        command::{Decision, Refusal, Reply},
        offer::{OfferKind, OfferName, Piece},
        state::State,
        summary::{Kept, Summary},
    },
    strategy::{Action, StageKind, Strategy, render},
};

pub(super) fn decide(state: &State, child: &str, offer: &str, summaries: &[Summary], now: Now) -> Decision {
    let call = match Call::resolve(state, child, offer) {
        Ok(call) => call,
        Err(refusal) => return Decision::refused(refusal),
    };
    let Some(mut walk) = Walk::start(state, call.release, call.key, now) else {
        let (child, offer) = (child.to_owned(), offer.to_owned());
        return Decision::refused(Refusal::NeverOffered { child, offer });
    };
    walk.reinstate();
    let kept_even_if_refused = walk.changes.len();
    let mut late = Vec::new();
    for summary in summaries {
        let taken = match call.name.kind {
            OfferKind::Undo(number) => undo(&mut walk, number, offer, summary),
            _ => work(&mut walk, call.name, offer, summary, &mut late),
        };
        if let Err(refusal) = taken {
            // All or none of what counts; what came too late is kept whatever else the call says.
            walk.changes.truncate(kept_even_if_refused);
            walk.changes.append(&mut late);
            return Decision { changes: walk.changes, answer: Err(refusal) };
        }
    }
    let answer =
        if late.is_empty() { Ok(Reply::Stored) } else { Err(Refusal::Late { offer: offer.to_owned() }) };
    walk.changes.append(&mut late);
    Decision { changes: walk.changes, answer }
}

/// Both ways in which an undo ends leave the base version.
fn undo(walk: &mut Walk<'_>, number: u16, offer: &str, summary: &Summary) -> Result<(), Refusal> {
    let stage = summary.stage_name.clone().unwrap_or_else(|| render::UNDO_STAGE.to_owned());
    let not_started = || Refusal::NotStarted { offer: offer.to_owned(), stage: stage.clone() };
    if stage != render::UNDO_STAGE {
        return Err(Refusal::UnknownStage { offer: offer.to_owned(), stage });
    }
    let undo = walk.assignment.undo.as_deref().ok_or_else(not_started)?;
    if number > undo.number {
        return Err(not_started());
    }
    let Some(function) = undo.functions.first().filter(|_| number == undo.number) else {
        return Ok(()); // a repeat
    };
    if !undo.fetched {
        return Err(not_started());
    }
    let functions = undo.functions;
    match summary.status {
        StageStatus::SuccessWaiting => Ok(()),
        StageStatus::Completed | StageStatus::Failure => {
            walk.step(Step::UndoConfirmed { function: function as u8 });
            walk.deployed(function, Variant::Base);
            Ok(())
        }
        StageStatus::Error => {
            walk.step(Step::UndoOffered { functions });
            Ok(())
        }
        other => Err(Refusal::NotAReport(other)),
    }
}

fn work(
    walk: &mut Walk<'_>,
    name: OfferName,
    offer: &str,
    summary: &Summary,
    late: &mut Vec<Change>,
) -> Result<(), Refusal> {
    if !matches!(
        summary.status,
        StageStatus::SuccessWaiting | StageStatus::Completed | StageStatus::Failure | StageStatus::Error
    ) {
        return Err(Refusal::NotAReport(summary.status));
    }
    let kept = summary.keep();
    let slot = slot(walk, name, offer, summary, &kept)?;
    let current = name == walk.assignment.offer_name() && !walk.assignment.status.is_over();
    if !current {
        return past(walk, name, offer, slot, summary, &kept, late);
    }
    let not_started =
        || Refusal::NotStarted { offer: offer.to_owned(), stage: stage_name(walk.strategy(), slot) };
    if !walk.assignment.fetched {
        return Err(not_started());
    }
    if let Some(mark) = walk.assignment.mark(slot) {
        return repeat(mark.digest, offer, slot, summary, &kept, walk.strategy());
    }
    if slot != walk.assignment.slot {
        // It is in a later stage already: what it reported of this one never came.
        late.push(keep_late(walk, slot, summary));
        let before = walk.changes.len();
        walk.give_up(Outcome::Lost);
        late.extend(walk.changes.drain(before..));
        return Err(Refusal::Late { offer: offer.to_owned() });
    }
    if summary.status == StageStatus::SuccessWaiting {
        return wait(walk, slot, kept);
    }
    ended(walk, slot, summary, kept);
    Ok(())
}

/// The slot that a summary is about.
fn slot(
    walk: &Walk<'_>,
    offered: OfferName,
    offer: &str,
    summary: &Summary,
    kept: &Kept,
) -> Result<Slot, Refusal> {
    let assignment = &walk.assignment;
    let Some(name) = &summary.stage_name else {
        let last = assignment.marks.iter().rev().find(|mark| mark.attempt == assignment.attempt);
        return Ok(last.filter(|mark| mark.digest == kept.digest).map_or(assignment.slot, |mark| mark.slot));
    };
    find_slot(walk.strategy(), offered, name)
        .ok_or_else(|| Refusal::UnknownStage { offer: offer.to_owned(), stage: name.clone() })
}

/// The slot of a stage by its name in an offer. All roll-outs call theirs the same: which function one is of, only
/// the offer tells, and a repeat may be about an earlier one than the current.
pub(super) fn find_slot(strategy: &Strategy, offered: OfferName, name: &str) -> Option<Slot> {
    if let OfferKind::Rollout(function) = offered.kind {
        return (name == render::ROLLOUT_STAGE).then_some(Slot::rollout(function));
    }
    strategy.stages.iter().position(|stage| stage.name == name).map(Slot::stage)
}

/// What a stage is called in an offer.
pub(super) fn stage_name(strategy: &Strategy, slot: Slot) -> String {
    match slot.stage_index() {
        Some(index) => strategy.stages.get(index).map_or_else(String::new, |stage| stage.name.clone()),
        None => render::ROLLOUT_STAGE.to_owned(),
    }
}

fn repeat(
    digest: u64,
    offer: &str,
    slot: Slot,
    summary: &Summary,
    kept: &Kept,
    strategy: &Strategy,
) -> Result<(), Refusal> {
    if digest == kept.digest || summary.status == StageStatus::SuccessWaiting {
        return Ok(());
    }
    Err(Refusal::EndedOtherwise { offer: offer.to_owned(), stage: stage_name(strategy, slot) })
}

/// A report about an offer that is over for this child.
fn past(
    walk: &mut Walk<'_>,
    name: OfferName,
    offer: &str,
    slot: Slot,
    summary: &Summary,
    kept: &Kept,
    late: &mut Vec<Change>,
) -> Result<(), Refusal> {
    let assignment = &walk.assignment;
    let downloaded = assignment.fetched || name.attempt < assignment.named || !assignment.marks.is_empty();
    if !downloaded {
        let stage = stage_name(walk.strategy(), slot);
        return Err(Refusal::NotStarted { offer: offer.to_owned(), stage });
    }
    // An agent repeats this every second until it is answered well, whatever became of the release.
    if summary.status == StageStatus::SuccessWaiting {
        return Ok(());
    }
    if let Some(mark) = assignment.marks.iter().rev().find(|mark| mark.slot == slot) {
        if mark.digest == kept.digest {
            return Ok(());
        }
        if mark.attempt == assignment.attempt && name.attempt == assignment.named {
            return repeat(mark.digest, offer, slot, summary, kept, walk.strategy());
        }
    }
    late.push(keep_late(walk, slot, summary));
    let shows = shows(walk.strategy(), piece(name, walk.strategy()), slot, summary.status);
    let before = walk.changes.len();
    walk.step(Step::Late { slot: Some(slot), status: summary.status, shows });
    let function = slot.function(walk.strategy());
    match shows {
        Shows::New => {
            walk.deployed(function, Variant::New);
            walk.offer_undo();
        }
        Shows::Base => confirm_by_late_result(walk, function),
        Shows::Nothing => {}
    }
    late.extend(walk.changes.drain(before..));
    Ok(())
}

/// The piece that an offer handed out.
fn piece(name: OfferName, strategy: &Strategy) -> Piece {
    match name.kind {
        OfferKind::Stage(stage) => Piece::Stage(stage),
        OfferKind::Rollout(function) => Piece::Rollout(function),
        OfferKind::First | OfferKind::Undo(_) => first_piece(strategy),
    }
}

/// A late result that proves the base version makes an undo needless, unless the child has it in hand already.
fn confirm_by_late_result(walk: &mut Walk<'_>, function: usize) {
    let waits = walk
        .assignment
        .pending_undo()
        .is_some_and(|undo| !undo.fetched && undo.functions.first() == Some(function));
    if waits {
        walk.step(Step::UndoConfirmed { function: function as u8 });
        walk.deployed(function, Variant::Base);
    }
}

fn keep_late(walk: &Walk<'_>, slot: Slot, summary: &Summary) -> Change {
    Change::LateKept {
        release: walk.release.key,
        child: walk.child,
        stage: Some(stage_name(walk.strategy(), slot)),
        summary: Box::new(summary.clone()),
    }
}

fn wait(walk: &mut Walk<'_>, slot: Slot, kept: Kept) -> Result<(), Refusal> {
    let stage = slot.stage_index().and_then(|index| walk.strategy().stages.get(index));
    if let Some(stage) = stage
        && stage.kind != StageKind::WaitForSignal
    {
        return Err(Refusal::DoesNotWait { stage: stage.name.clone() });
    }
    if walk.assignment.stage_status >= StageStatus::SuccessWaiting {
        let (release, child) = (walk.release.key, walk.child);
        walk.changes.push(Change::Numbers { release, child, slot, summary: Box::new(kept) });
        return Ok(());
    }
    walk.step_with(Step::Waiting { slot }, Some(kept));
    if walk.release.is_running() {
        walk.step(Step::Signalled);
    }
    Ok(())
}

fn ended(walk: &mut Walk<'_>, slot: Slot, summary: &Summary, kept: Kept) {
    let strategy = walk.strategy();
    let piece = walk.assignment.piece;
    let stage = slot.stage_index().and_then(|index| strategy.stages.get(index));
    let completed = summary.status == StageStatus::Completed;
    let verdict = match stage {
        Some(stage) if completed => summary.judge_quantiles(stage),
        _ => Ok(()),
    };
    let success = completed && verdict.is_ok();
    let function = walk.assignment.current_function(strategy);
    let shows = shows(strategy, piece, slot, summary.status);
    let (status, digest) = (summary.status, kept.digest);
    walk.step_with(Step::Reported { slot, status, digest, shows, why: verdict.err() }, Some(kept));
    match shows {
        Shows::Base => walk.deployed(function, Variant::Base),
        Shows::New => walk.deployed(function, Variant::New),
        Shows::Nothing => {}
    }
    match piece {
        Piece::Whole => after_whole(walk, slot, success, function),
        Piece::Stage(_) => after_stage(walk, slot, success, function),
        Piece::Rollout(rolled_out) => after_rollout(walk, rolled_out, success),
    }
    if walk.assignment.status.is_over() && summary.status == StageStatus::Error {
        // Nothing proves what an agent runs that reports an error of its own.
        walk.offer_undo();
    }
}

/// In a whole offer the agent walks by itself: success leads to the next stage, failure to the end.
fn after_whole(walk: &mut Walk<'_>, slot: Slot, success: bool, function: usize) {
    let action = slot.stage_index().map_or(Action::Rollback, |stage| walk.strategy().next(stage, success));
    match action {
        Action::Stage(next) => walk.step(Step::StageBegan { slot: Slot::stage(next) }),
        Action::Rollout if success => finish(walk, success, Some((function, Variant::New))),
        Action::Rollout | Action::Rollback => finish(walk, success, Some((function, Variant::Base))),
    }
}

/// A stage that was offered alone: the manager walks the graph.
fn after_stage(walk: &mut Walk<'_>, slot: Slot, success: bool, function: usize) {
    let strategy = walk.strategy();
    let Some(stage) = slot.stage_index() else { return };
    match strategy.next(stage, success) {
        Action::Stage(next) => walk.step(Step::NextOffer { piece: Piece::Stage(next as u8) }),
        Action::Rollout if success && rolls_out_itself(strategy, stage) => {
            finish(walk, true, Some((function, Variant::New)));
        }
        Action::Rollout => walk.step(Step::NextOffer { piece: Piece::Rollout(0) }),
        Action::Rollback => finish(walk, success, Some((function, Variant::Base))),
    }
}

/// One function after the other; if one fails, those before it are undone.
fn after_rollout(walk: &mut Walk<'_>, function: u8, success: bool) {
    let next = function + 1;
    if !success {
        finish(walk, false, None);
        walk.offer_undo();
    } else if usize::from(next) < walk.strategy().functions.len() {
        walk.step(Step::NextOffer { piece: Piece::Rollout(next) });
    } else {
        finish(walk, true, Some((usize::from(function), Variant::New)));
    }
}

fn finish(walk: &mut Walk<'_>, success: bool, runs: Option<(usize, Variant)>) {
    let (status, outcome) = if success {
        (ChildStatus::Done, Outcome::Succeeded)
    } else {
        (ChildStatus::Failed, Outcome::Failed)
    };
    if let Some((function, variant)) = runs {
        walk.deployed(function, variant);
    }
    walk.step(Step::Ended { status, outcome });
    // An undo of what an earlier attempt may have left is overtaken by what this one has made of it.
    if success && walk.assignment.pending_undo().is_some_and(|undo| !undo.fetched) {
        walk.step(Step::UndoDropped);
    }
}

/// What a report proves of the version that the child runs now. See DESIGN of agents in the module's text of
/// [`crate::release`]: an agent acts before it reports, and after a failure it may walk on to the next stage.
fn shows(strategy: &Strategy, piece: Piece, slot: Slot, status: StageStatus) -> Shows {
    let success = match status {
        StageStatus::Completed => true,
        StageStatus::Failure => false,
        _ => return Shows::Nothing,
    };
    match piece {
        Piece::Rollout(_) => {
            if success {
                Shows::New
            } else {
                Shows::Base
            }
        }
        Piece::Stage(_) => {
            let rolls_out = slot.stage_index().is_some_and(|stage| rolls_out_itself(strategy, stage));
            if success && rolls_out { Shows::New } else { Shows::Base }
        }
        Piece::Whole => {
            let Some(stage) = slot.stage_index() else { return Shows::Nothing };
            match strategy.next(stage, success) {
                Action::Rollout if success => Shows::New,
                Action::Stage(_) => Shows::Nothing,
                // Only after the last stage of the file is there nothing to walk on to.
                _ if strategy.success_path().last() == Some(&stage) => Shows::Base,
                _ => Shows::Nothing,
            }
        }
    }
}
