//! A stage has ended for a child: what it does next.

use super::{read::Report, version_evidence::shows};
use crate::{
    children::Variant,
    release::{
        assignment::{Shows, Step, StepIndex},
        deadline,
        decide::draft::Walk,
        ending::{Cause, Ending},
        offer::{MAX_ATTEMPT, Unit},
        settings::Member,
        summary::Summary,
    },
};
use language::{Action, Stage};
use model::{ChildStatus, Exclusion, Now, Outcome, StageStatus};

pub(super) fn ended(walk: &mut Walk<'_>, report: &Report<'_>, now: Now) {
    let (slot, summary) = (report.slot, report.summary());
    if let Some(why) = untested(walk, slot, summary) {
        return ended_untested(walk, report, why, now);
    }
    let strategy = walk.strategy();
    let piece = walk.assignment.piece();
    let stage = slot.stage_index().and_then(|index| strategy.stages.get(index));
    let completed = summary.status == StageStatus::Completed;
    // A manager has judged its children itself.
    let verdict = match stage.filter(|_| walk.assignment.stepwise().is_some()) {
        Some(stage) if completed => summary.judge_quantiles(stage),
        _ => Ok(()),
    };
    let success = completed && verdict.is_ok();
    let function = walk.assignment.current_function(strategy);
    let functions = walk.assignment.current_functions(strategy);
    // Of no earlier attempt anything was ever to be taken back: what it has in hand is all that it may run.
    let is_unstarted = summary.is_unstarted() && walk.assignment.undo().is_none();
    // Who went on from a stage that had failed went the way of its success.
    let went_as = if summary.is_kept() { StageStatus::Completed } else { summary.status };
    let shows = match shows(&walk.assignment, strategy, piece, slot, went_as) {
        Shows::Nothing if is_unstarted => Shows::Base,
        shows => shows,
    };
    let (status, digest) = (summary.status, report.received.digest);
    let why = verdict.err().or_else(|| if success { None } else { said_of(summary, stage) });
    let step = Step::Reported { slot, status, digest, shows, why };
    walk.step_with(step, Some(report.keep()));
    match shows {
        // What serves there is what did before, which needn't be the base version.
        Shows::Base if is_unstarted => {}
        Shows::Base => walk.deployed_all(functions, Variant::Base),
        Shows::New => walk.deployed_all(functions, Variant::New),
        Shows::Nothing => {}
    }
    match piece {
        Unit::Whole if walk.assignment.is_whole() => {
            let wanted = summary.why.as_ref().is_some_and(|why| why.cause.is_wanted());
            after_manager(walk, slot, success, wanted);
        }
        Unit::Whole => after_in_place(walk, slot, went_as),
        Unit::Stage(_) if is_unstarted => finish(walk, false, None),
        Unit::Stage(_) => after_stage(walk, slot, success, function),
        Unit::Rollout(rolled_out) => after_rollout(walk, rolled_out, success),
    }
    // Nothing proves what an agent runs that reports an error of its own; nor does the end of one function's stage
    // prove anything of the others.
    let unproven = summary.status == StageStatus::Error || piece != Unit::Whole;
    if walk.assignment.status == ChildStatus::Failed && unproven {
        if shows == Shows::Nothing {
            walk.deployed_all(functions, Variant::Unknown);
        }
        walk.offer_undo();
    }
}

/// Why a stage failed: as the child says, or else which condition its numbers break.
fn said_of(summary: &Summary, stage: Option<&Stage>) -> Option<String> {
    let said = summary.why.as_ref().map(|why| why.text.clone());
    said.or_else(|| Some(summary.broken_condition(stage?)?.numbers))
}

/// Why a stage of an agent has tested nothing, if so.
fn untested(walk: &Walk<'_>, slot: StepIndex, summary: &Summary) -> Option<&'static str> {
    let assignment = &walk.assignment;
    let stage = slot.stage_index().and_then(|stage| walk.strategy().stages.get(stage))?;
    if assignment.is_whole() {
        return None;
    }
    let told = assignment.is_told_idle();
    // Calls or none: nobody gives any to targets that are away, and who was asked and is silent was tested.
    let is_told = |why: &Ending| matches!(why.cause, Cause::Health | Cause::Kept | Cause::NoAnswer);
    if summary.why.as_deref().is_some_and(is_told) {
        return None;
    }
    match summary.status {
        StageStatus::Failure
            if stage.new_traffic > 0 && summary.variations.is_empty() && summary.has_no_calls() =>
        {
            Some("the new version got no call")
        }
        StageStatus::Failure if summary.why.is_none() && summary.lacks_calls(stage) => {
            Some("one of the variations got no call")
        }
        // It was told to go back, whatever it has measured.
        StageStatus::Completed if told && assignment.is_in_place() => {
            Some("it got fewer calls than its minimum in time")
        }
        StageStatus::Completed if told && !summary.has_calls(stage.min_calls.max(1)) => {
            Some("it got fewer calls than its minimum")
        }
        StageStatus::Pending
        | StageStatus::InProgress
        | StageStatus::SuccessWaiting
        | StageStatus::ShouldEnd
        | StageStatus::Completed
        | StageStatus::Failure
        | StageStatus::Error => None,
    }
}

/// Highest attempt that a stage without calls is offered again as: retries by hand need some, too.
const MAX_IDLE_ATTEMPT: u16 = MAX_ATTEMPT - 100;

/// A stage without calls begins again no sooner after it began than this, in milliseconds. Whoever sets it up anew takes longer.
const AGAIN_NO_SOONER_MS: u64 = 15_000;

/// Nothing failed, and nothing was tested. Who ended the stage by itself tries it again, as long as it may.
fn ended_untested(walk: &mut Walk<'_>, report: &Report<'_>, why: &str, now: Now) {
    let rest_ms = AGAIN_NO_SOONER_MS.saturating_sub(walk.at.saturating_sub(walk.assignment.stage_since));
    let by_itself = walk.assignment.stage_status < StageStatus::ShouldEnd;
    let deadlines = walk.state.settings.deadlines(walk.strategy(), &walk.state.children);
    let deadlines = deadlines.of_member(Member { child: walk.child, part: &walk.assignment });
    let longest = deadline::without_calls(&walk.assignment, walk.strategy()).unwrap_or(deadlines.stage_ms);
    let has_time = walk.at < walk.assignment.stage_begun().saturating_add(longest);
    let functions = walk.assignment.current_functions(walk.strategy());
    let (slot, status, digest) = (report.slot, report.summary().status, report.received.digest);
    let step = Step::Reported { slot, status, digest, shows: Shows::Base, why: Some(why.to_owned()) };
    walk.step_with(step, Some(report.keep()));
    walk.deployed_all(functions, Variant::Base);
    let piece = walk.assignment.piece();
    match walk.release.instead_of(piece) {
        skipped if skipped != piece => walk.step(Step::NextOffer { piece: skipped }),
        _ if walk.assignment.stepwise().is_some()
            && by_itself
            && has_time
            && walk.assignment.attempt < MAX_IDLE_ATTEMPT =>
        {
            let rests_until = (rest_ms > 0).then(|| now.served_ms.saturating_add(rest_ms));
            walk.step(Step::StageAgain { rests_until });
        }
        _ => {
            walk.step(Step::Ended { status: ChildStatus::Done, outcome: Outcome::Untested });
            drop_overtaken_undo(walk);
        }
    }
}

/// An agent that has the whole strategy goes the way that the strategy says, and is where that leads already.
fn after_in_place(walk: &mut Walk<'_>, slot: StepIndex, status: StageStatus) {
    let success = status == StageStatus::Completed;
    if status == StageStatus::Error {
        return finish(walk, false, None);
    }
    match slot.stage_index().map_or(Action::Rollback, |stage| walk.strategy().next(stage, success)) {
        Action::Stage(next) => walk.step(Step::StageBegan { slot: StepIndex::stage(next) }),
        Action::Rollout => finish(walk, true, None),
        Action::Rollback => finish(walk, success, None),
    }
}

/// A manager below reports the stages of the success path: whatever its children went through, it succeeded or failed; or
/// somebody there wanted no more of it.
fn after_manager(walk: &mut Walk<'_>, slot: StepIndex, success: bool, wanted: bool) {
    if !success && wanted {
        let outcome = Outcome::Excluded(Exclusion::AbortedBelow);
        return walk.step(Step::Ended { status: ChildStatus::Failed, outcome });
    }
    let next = slot.stage_index().map_or(Action::Rollback, |stage| walk.strategy().next(stage, true));
    match next {
        Action::Stage(next) if success => walk.step(Step::StageBegan { slot: StepIndex::stage(next) }),
        Action::Stage(_) | Action::Rollout | Action::Rollback => {
            let wave = walk.assignment.wave;
            let later = walk.assignment.whole().and_then(|manager| manager.wave_after(wave));
            match later.filter(|_| success) {
                Some(wave) => walk.step(Step::NextWave { wave }),
                None => finish(walk, success, None),
            }
        }
    }
}

/// A stage that was offered alone: the manager walks the graph.
fn after_stage(walk: &mut Walk<'_>, slot: StepIndex, success: bool, function: usize) {
    let strategy = walk.strategy();
    let Some(stage) = slot.stage_index() else { return };
    match strategy.next(stage, success) {
        Action::Stage(next) => match next_piece(walk, Unit::Stage(next as u8)) {
            Some(piece) => walk.step(Step::NextOffer { piece }),
            None => finish(walk, success, Some((function, Variant::Base))),
        },
        Action::Rollout => walk.step(Step::NextOffer { piece: Unit::Rollout(0) }),
        Action::Rollback => finish(walk, success, Some((function, Variant::Base))),
    }
}

/// What the child runs in the place of a piece: stages that are skipped, or that test what it does not run, are passed
/// over. `None`: nothing is left for it.
fn next_piece(walk: &Walk<'_>, piece: Unit) -> Option<Unit> {
    let mut piece = piece;
    // Each turn passes over a stage.
    for _ in 0..=walk.strategy().stages.len() {
        let next = walk.assignment.fitting(walk.release.instead_of(piece), walk.strategy())?;
        if next == piece {
            break;
        }
        piece = next;
    }
    Some(piece)
}

/// One function after the other; if one fails, those before it are undone.
fn after_rollout(walk: &mut Walk<'_>, function: u8, success: bool) {
    let next = walk.assignment.fitting(Unit::Rollout(function + 1), walk.strategy());
    match next {
        _ if !success => finish(walk, false, None),
        Some(piece) => walk.step(Step::NextOffer { piece }),
        None => finish(walk, true, Some((usize::from(function), Variant::New))),
    }
}

fn finish(walk: &mut Walk<'_>, success: bool, runs: Option<(usize, Variant)>) {
    let (status, outcome) = match walk.assignment.outcome {
        _ if !success => (ChildStatus::Failed, Outcome::Failed),
        // The others have passed, and it has what they have.
        Some(Outcome::Untested) => (ChildStatus::Done, Outcome::Untested),
        Some(
            Outcome::Succeeded
            | Outcome::Failed
            | Outcome::TimedOut
            | Outcome::Unreachable
            | Outcome::Lost
            | Outcome::Undone
            | Outcome::Excluded(_),
        )
        | None => (ChildStatus::Done, Outcome::Succeeded),
    };
    if let Some((function, variant)) = runs {
        walk.deployed(function, variant);
    }
    walk.step(Step::Ended { status, outcome });
    if success {
        drop_overtaken_undo(walk);
    }
}

/// An undo of what an earlier attempt may have left is overtaken by what this one has made of it.
fn drop_overtaken_undo(walk: &mut Walk<'_>) {
    if walk.assignment.pending_undo().is_some_and(|undo| !undo.fetched) {
        walk.step(Step::UndoDropped);
    }
}
