//! What changes of a release's life are called in the trail.

use super::event::Event;
use domain::release::{
    lifecycle::Change,
    state::{End, Release},
};

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(
    change: &'a Change,
    release: Option<&'a Release>,
    release_id: &'a str,
) -> Option<Event<'a>> {
    Some(match change {
        Change::Submitted { submitted, .. } => {
            Event::ReleaseSubmitted { release: submitted.id.as_str(), name: &submitted.strategy.name }
        }
        Change::Removed { id, .. } => Event::ReleaseRemoved { release: id.as_str() },
        Change::Started { membership, .. } => Event::ReleaseStarted {
            release: release_id,
            participants: membership.members.len(),
            excluded: &membership.excluded,
        },
        Change::Paused { pause, .. } => {
            Event::ReleasePaused { release: release_id, reason: &pause.reason, by_limit: pause.by.is_limit() }
        }
        Change::Resumed { .. } => Event::ReleaseResumed { release: release_id },
        Change::Aborted { why, end: End::RolledBack, .. } => {
            Event::ReleaseRolledBack { release: release_id, reason: &why.text }
        }
        Change::Aborted { why, .. } => Event::ReleaseAborted { release: release_id, reason: &why.text },
        Change::Replanned { .. } => Event::ReleaseReplanned { release: release_id },
        Change::Retried { .. } => Event::ReleaseRetried { release: release_id },
        Change::RoutersBack { .. } => Event::RoutersBack { release: release_id },
        Change::Ended { end, unconfirmed, .. } => {
            let reason = release.and_then(|release| release.ending.as_deref());
            let reason = reason.map(|ending| ending.text.as_str());
            Event::ReleaseEnded { release: release_id, end: *end, unconfirmed: *unconfirmed, reason }
        }
        Change::FaultNoted { ending, .. } => Event::ChildFailed {
            release: release_id,
            child: ending.child.as_deref().unwrap_or_default(),
            reason: &ending.text,
        },
        Change::ActedOn { .. } => return None,
    })
}
