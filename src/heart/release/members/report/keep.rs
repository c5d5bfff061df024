//! A stage has failed at an agent, and keeps its shares: see [`Keeping`](crate::release::assignment::Keeping). The release stands still,
//! as it does where a limit is passed, until somebody decides.

use super::{
    read::{Report, stage_name},
    waits_on,
};
use crate::release::{
    assignment::Step,
    change::Change,
    decide::walk::Walk,
    lifecycle,
    pause::{Pause, PausedBy},
    state::ReleaseState,
};
use model::Now;

pub(super) fn keep(walk: &mut Walk<'_>, report: &Report<'_>, now: Now) {
    if walk.assignment.rare().kept.is_some() {
        // It is told once a stage: this is a repeat, whatever was decided meanwhile.
        return waits_on(walk, report);
    }
    walk.step_with(Step::Kept { slot: report.slot }, Some(report.keep()));
    if !is_to_pause(&walk.release.state) {
        return;
    }
    let child = walk.state.children.get(walk.child).map_or("a child", |record| record.id.as_str());
    let stage = stage_name(walk.strategy(), report.slot);
    let why = report.summary().why.as_ref().map_or("", |why| &why.text);
    let text = format!("{child} failed in stage {stage} ({why}): it keeps its shares until somebody decides");
    let (release, pause) = (walk.release.key, Pause::new(PausedBy::Limit, text));
    walk.changes.push(Change::Lifecycle(lifecycle::Change::Paused { release, pause, now }));
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
