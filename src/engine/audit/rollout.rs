//! What changes of waves, levels and gates are called in the trail.

use super::event::Event;
use ::ab_releases::percent;
use domain::release::gate::{ALL_OPEN, Gate};
use domain::release::rollout::Change;
use domain::release::state::Release;
use language::Subject;

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
        Change::SharesChosen { stage, .. } => shares_chosen(release, release_id, *stage),
        Change::TurnoutAsked { .. } => return None,
    })
}

/// The change is applied already: the stage has these shares.
fn shares_chosen<'a>(release: Option<&'a Release>, release_id: &'a str, stage: u8) -> Event<'a> {
    let strategy = release.map(|release| &*release.strategy);
    let found = strategy.and_then(|strategy| strategy.stages.get(usize::from(stage)));
    let subject = strategy.zip(found).and_then(|(strategy, stage)| strategy.subject(stage.subject));
    let variations = match subject {
        Some(Subject::Service(service)) => &service.variations[..],
        Some(Subject::Function(_)) | None => &[],
    };
    let shares = found.map(|stage| stage.shares.as_slice()).unwrap_or_default();
    let shares = variations.iter().zip(shares).map(|(one, share)| (one.name.as_str(), percent(*share)));
    let stage = found.map_or("?", |stage| stage.name.as_str());
    Event::SharesChosen { release: release_id, stage, shares: shares.collect() }
}
