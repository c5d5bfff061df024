//! What changes of whole stages are called in the trail.

use super::Event;
use heart::release::stages::Change;
use heart::release::state::Release;

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(
    change: &'a Change,
    release: Option<&'a Release>,
    release_id: &'a str,
) -> Option<Event<'a>> {
    Some(match change {
        Change::Ended { stage, .. } => {
            let stage = release.and_then(|r| r.strategy.stages.get(usize::from(*stage)));
            Event::StageEnded { release: release_id, stage: stage.map_or("?", |stage| &stage.name) }
        }
        Change::UntestedRolledOut { .. } => Event::UntestedRolledOut { release: release_id },
        Change::Skipped { stage, .. } => {
            let stage = release.and_then(|r| r.strategy.stages.get(usize::from(*stage)));
            Event::StageSkipped { release: release_id, stage: stage.map_or("?", |stage| &stage.name) }
        }
        Change::Timed { .. } => return None,
    })
}
