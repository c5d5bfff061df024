//! What changes of one child's part in a release are called in the trail.

use super::{event::Event, step::ToldStep};
use domain::release::members::Change;
use domain::release::state::Release;

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(
    change: &'a Change,
    child_id: &'a str,
    release: Option<&'a Release>,
    release_id: &'a str,
) -> Option<Event<'a>> {
    Some(match change {
        Change::Joined { .. } => Event::ChildJoined { release: release_id, child: child_id },
        Change::Stepped { step, .. } => {
            Event::Child { release: release_id, child: child_id, step: ToldStep(step) }
        }
        Change::LateKept { stage, report, .. } => Event::LateResult {
            release: release_id,
            child: child_id,
            stage: stage.as_deref(),
            summary: &report.summary,
        },
        Change::Deployed { function, variant, .. } => {
            let function = release.and_then(|r| r.strategy.subject_key(*function));
            let function = function.unwrap_or("?");
            Event::Deployed { release: release_id, child: child_id, function, variant: *variant }
        }
        Change::DeadlinesSeen { .. } | Change::Numbers { .. } => return None,
    })
}
