//! What changes of whole stages are called in the trail.

use super::event::{Event, stage_name};
use domain::release::stages::Change;
use domain::release::state::Release;

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(
    change: &'a Change,
    release: Option<&'a Release>,
    release_id: &'a str,
) -> Option<Event<'a>> {
    Some(match change {
        Change::Ended { stage, .. } => {
            Event::StageEnded { release: release_id, stage: stage_name(release, *stage) }
        }
        Change::UntestedRolledOut { .. } => Event::UntestedRolledOut { release: release_id },
        Change::Skipped { stage, .. } => {
            Event::StageSkipped { release: release_id, stage: stage_name(release, *stage) }
        }
        Change::Timed { .. } => return None,
    })
}
