//! What a child reports of an undo.

use super::agents_below::unconfirmed_below;
use crate::{
    children::Variant,
    release::{
        assignment::{FunctionSet, Step},
        command::Refusal,
        decide::draft::Walk,
        summary::Summary,
    },
};
use language::render;
use model::{Now, StageStatus};

/// Both ways in which an undo ends leave the base version. An error of the child's own leaves it to be offered again, after a rest that
/// grows: what has stood in its way may stand there for long.
pub(super) fn undo(
    walk: &mut Walk<'_>,
    number: u16,
    offer: &str,
    summary: &Summary,
    now: Now,
) -> Result<(), Refusal> {
    let stage = summary.stage_name.clone().unwrap_or_else(|| render::UNDO_STAGE.to_owned());
    let not_started = || Refusal::NotStarted { offer: offer.to_owned(), stage: stage.clone() };
    if stage != render::UNDO_STAGE {
        return Err(Refusal::UnknownStage { offer: offer.to_owned(), stage });
    }
    let undo = walk.assignment.undo().ok_or_else(not_started)?;
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
    // A manager takes everything back at once.
    let is_manager = walk.assignment.is_whole();
    let confirmed = if is_manager { functions } else { FunctionSet::of(function) };
    match summary.status {
        StageStatus::SuccessWaiting => Ok(()),
        StageStatus::Completed | StageStatus::Failure => {
            unconfirmed_below(walk, summary);
            for function in confirmed.iter() {
                walk.step(Step::UndoConfirmed { function: function as u8 });
            }
            walk.deployed_all(confirmed, Variant::Base);
            Ok(())
        }
        StageStatus::Error => {
            let rest_ms = undo.rest_ms(walk.release.key, walk.child);
            let why = summary.why.as_ref().map(|why| why.text.clone());
            walk.fail_undo(Some(rest_ms), why, now);
            Ok(())
        }
        other => Err(Refusal::NotAReport(other)),
    }
}
