//! What changes of waves, levels and gates are called in the trail.

use super::event::Event;
use domain::release::gate::{ALL_OPEN, Gate};
use domain::release::rollout::Change;
use domain::release::state::Release;

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(
    change: &'a Change,
    release: Option<&'a Release>,
    release_id: &'a str,
) -> Option<Event<'a>> {
    Some(match change {
        Change::GateReached { gate, .. } => {
            let gate = release.map_or_else(String::new, |release| release.gate_name(*gate));
            Event::GateReached { release: release_id, gate }
        }
        Change::GateLeft { .. } => Event::GateLeft { release: release_id },
        Change::ApprovalAsked { what, .. } => Event::ApprovalAsked { release: release_id, what },
        Change::Approved { .. } => Event::ReleaseApproved { release: release_id },
        Change::WavesOpened { to, .. } => {
            let gate = release.map_or_else(String::new, |release| release.gate_name(Gate::Wave(*to)));
            Event::GateOpened { release: release_id, gate }
        }
        Change::LevelOpened { level, .. } => {
            let below = release.map_or_else(String::new, |release| match *level {
                ALL_OPEN => "everything".to_owned(),
                level => format!("everything before {}", release.gate_name(Gate::Level(level))),
            });
            Event::GateOpened { release: release_id, gate: below }
        }
        Change::WavesPlanned { moved, left_out, .. } => {
            Event::WavesPlanned { release: release_id, moved: moved.len(), left_out: *left_out }
        }
        Change::WinnerChosen { variation, .. } => {
            let service = release.and_then(|release| release.strategy.services.first());
            let variation = service.and_then(|service| service.variations.get(usize::from(*variation)));
            Event::WinnerChosen {
                release: release_id,
                variation: variation.map_or("?", |variation| variation.name.as_str()),
            }
        }
        Change::TurnoutAsked { .. } => return None,
    })
}
