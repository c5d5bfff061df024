//! Releases that are not over, and rollbacks that are not proven.

use std::collections::BTreeMap;

use super::items::{About, Item, Items, Severity};
use crate::scope::Scope;
use domain::release::{
    pause::{Pause, PausedBy},
    state::{Release, ReleaseState, Snapshot},
};
use engine::presentation::line;
use model::Now;
use protocol::api::OpenReleases;

/// Most releases that are shown beside the items.
const MAX_RUNNING: usize = 20;

/// All that the caller sees of those in memory.
pub fn look(state: &Snapshot, scope: &Scope, now: Now, items: &mut Items) -> OpenReleases {
    let mut open = BTreeMap::new();
    let mut running = Vec::new();
    for release in state.releases.values().filter(|release| scope.sees_release(release.id.as_str())) {
        if !release.state.is_over() {
            *open.entry(release.state.name().to_owned()).or_default() += 1;
        }
        match needs(release) {
            Some(need) => items.push(item(state, release, need, now)),
            None if release.state.is_over() => {}
            None => running.push(release),
        }
    }
    let more_running = running.len().saturating_sub(MAX_RUNNING);
    let newest = running.into_iter().rev().take(MAX_RUNNING);
    OpenReleases {
        open,
        running: newest.map(|release| line::in_memory(state, release, now)).collect(),
        more_running: u32::try_from(more_running).unwrap_or(u32::MAX),
    }
}

/// How urgently somebody has to act on a release, and the verb that helps.
type Need = (Severity, &'static str);

/// `None`: it goes on, or is over, by itself.
fn needs(release: &Release) -> Option<Need> {
    match &release.state {
        ReleaseState::AwaitingApproval { .. } => Some((Severity::Action, "approve")),
        // It is let go on where it was paused.
        ReleaseState::Paused(_) if release.is_held() => None,
        ReleaseState::Paused(Pause { by: PausedBy::Operator, .. }) => Some((Severity::Action, "resume")),
        // What it was paused for has to be looked at first.
        ReleaseState::Paused(_) => Some((Severity::Action, "show")),
        ReleaseState::RollingBack { .. } => {
            has_failed_rollback(release).then_some((Severity::Critical, "show"))
        }
        ReleaseState::Over { .. } => (release.unproven() > 0).then_some((Severity::Critical, "show")),
        ReleaseState::Planned | ReleaseState::Running => None,
    }
}

/// Whether a child failed to go back, and has not done so since.
fn has_failed_rollback(release: &Release) -> bool {
    let part = release.failed_undo.and_then(|child| release.assignments.get(&child));
    part.is_some_and(|part| part.pending_undo().is_some())
}

fn item(state: &Snapshot, release: &Release, (severity, verb): Need, now: Now) -> Item {
    let shown = line::in_memory(state, release, now);
    let (id, name) = (shown.release.id.as_str(), shown.release.name.as_str());
    let text = shown.release.waits_for.unwrap_or_else(|| {
        let count = release.unproven();
        let agents = if count == 1 { "agent has" } else { "agents have" };
        format!("its rollback is not proven: {count} {agents} not shown that the base version runs again")
    });
    let help = format!("choirmaster release {verb} {id}");
    Item::new((severity, About::Release), text, help).of(id, Some(name)).since(shown.since)
}
