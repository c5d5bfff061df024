//! A stage has failed at an agent, or below a manager, and keeps its shares: see [`Keeping`](crate::release::assignment::Keeping). The
//! release stands still, as it does where a limit is passed, until somebody decides; one that came from above passes it on, and waits.

use super::{read::Report, under_way, waits_on};
use crate::release::{
    assignment::{Step, StepIndex},
    change::Change,
    command::Refusal,
    decide::draft::Walk,
    ending::{Cause, Ending},
    first_failure::Place,
    lifecycle, parent,
    pause::{Pause, PausedBy},
    state::ReleaseState,
};
use model::Now;

pub(super) fn keep(walk: &mut Walk<'_>, report: &Report<'_>, now: Now) -> Result<(), Refusal> {
    if let Some(manager) = walk.assignment.whole() {
        let number = report.summary().failures.filter(|number| *number > manager.failures);
        // Others below it go on with the stage.
        under_way(walk, report)?;
        let Some(number) = number else { return Ok(()) };
        let failed = report.summary().why.as_ref().and_then(|why| why.stage.as_deref());
        let at = walk.strategy().stages.iter().position(|stage| Some(stage.name.as_str()) == failed);
        walk.step(Step::KeptBelow { slot: at.map_or(report.slot, StepIndex::stage), number });
    } else if walk.assignment.rare().kept.is_some() {
        // It is told once a stage: this is a repeat, whatever was decided meanwhile.
        waits_on(walk, report);
        return Ok(());
    } else {
        walk.step_with(Step::Kept { slot: report.slot }, Some(report.keep()));
    }
    let (release, why) = (walk.release.key, why(walk, report));
    if walk.strategy().is_decided_above() {
        if walk.release.may_end_well() {
            let why = Box::new(why);
            walk.changes.push(Change::Parent(parent::Change::Failed { release, why }));
        }
    } else if is_to_pause(&walk.release.state) {
        let text = format!("{}: it keeps its shares until somebody decides", why.text);
        let pause = Pause::new(PausedBy::Limit, text);
        walk.changes.push(Change::Lifecycle(lifecycle::Change::Paused { release, pause, now }));
    }
    Ok(())
}

/// Who failed where, and why: of a manager what it says of those below.
fn why(walk: &Walk<'_>, report: &Report<'_>) -> Ending {
    let child = walk.state.children.get(walk.child).map_or("a child", |record| record.id.as_str());
    let said = report.summary().why.as_deref();
    let reason = said.map_or("", |said| &said.text);
    if walk.assignment.is_whole() {
        let below = said.and_then(|said| said.child.as_deref());
        return Ending {
            child: Some(below.map_or_else(|| child.to_owned(), |below| format!("{child}: {below}"))),
            stage: said.and_then(|said| said.stage.clone()),
            version: said.and_then(|said| said.version.clone()),
            numbers: said.and_then(|said| said.numbers.clone()),
            ..Ending::new(Cause::Kept, format!("{child}: {reason}"))
        };
    }
    let place = Place::of(walk.strategy(), report.slot, Some(report.summary()));
    let text = format!("{child} failed in {} ({reason})", place.text(true));
    let numbers = said.map(|said| said.text.clone());
    place.ending(Ending { child: Some(child.to_owned()), numbers, ..Ending::new(Cause::Kept, text) })
}

/// Whoever has a release go on that is paused for something else is to know of this too.
const fn is_to_pause(state: &ReleaseState) -> bool {
    match state {
        ReleaseState::Running | ReleaseState::AwaitingApproval { .. } => true,
        ReleaseState::Paused(pause) => {
            matches!(pause.by, PausedBy::Operator | PausedBy::Analysis | PausedBy::Agent)
        }
        ReleaseState::Planned | ReleaseState::RollingBack { .. } | ReleaseState::Over { .. } => false,
    }
}
