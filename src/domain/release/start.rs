//! Which releases start now.

use super::{
    change::Change,
    command::LastSeen,
    lifecycle::{self, membership},
    liveness_check::ReportedLiveness,
    rollout,
    state::{Release, State},
};
use model::Now;

/// Starts every planned release whose time has come and that nothing earlier stands in the way of.
pub(super) fn start_next(state: &State, seen: &dyn LastSeen, now: Now) -> Vec<Change> {
    let ready = state.schedule.ready(now.served_ms).into_iter();
    ready
        .filter_map(|key| state.release(key))
        .filter_map(|release| start(state, seen, release, now))
        .collect()
}

/// Starts a release with who can take part, or asks managers below who can.
fn start(state: &State, seen: &dyn LastSeen, release: &Release, now: Now) -> Option<Change> {
    let key = release.key;
    match release.asking {
        Some(until) if now.served_ms < until => return None,
        Some(_) => {}
        None if release.managers_to_plan(state).is_empty() => {}
        None => return Some(Change::Rollout(rollout::Change::TurnoutAsked { release: key, now })),
    }
    let membership = membership(state, seen, &release.strategy, &ReportedLiveness::new(), now);
    Some(Change::Lifecycle(lifecycle::Change::Started { release: key, membership, now }))
}
