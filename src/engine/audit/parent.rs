//! What changes of what the parent orders and is told are called in the trail.

use super::event::{Event, stage_name};
use domain::release::parent::Change;
use domain::release::state::Release;

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(
    change: &'a Change,
    release: Option<&'a Release>,
    release_id: &'a str,
) -> Option<Event<'a>> {
    Some(match change {
        Change::Forwarded { id, to } => Event::ReleaseForwarded { release: id, to },
        Change::Held { held, .. } => Event::HeldByParent { release: release_id, held: *held },
        Change::StageReported { stage, status, .. } => {
            let stage = stage_name(release, *stage);
            Event::StageReported { release: release_id, stage, status: status.name() }
        }
        Change::Continued { offer, .. } => Event::ReleaseContinued { release: release_id, offer },
        Change::UndoReported { offer, unconfirmed, .. } => {
            Event::UndoReported { release: release_id, offer, unconfirmed: *unconfirmed }
        }
        Change::FailuresAccepted { .. } => Event::FailuresAccepted { release: release_id },
        Change::UndoAwaited { .. } | Change::Recounted { .. } | Change::Failed { .. } => return None,
    })
}
