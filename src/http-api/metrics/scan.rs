//! Numbers about releases that are not over, read from a snapshot of the engine's state.

use std::time::Duration;

use crate::Context;
use domain::release::{
    assignment::Assignment,
    next_action,
    settings::Member,
    state::{Counts, Release, Snapshot},
};
use engine::EngineError;
use model::{ChildKey, ChildStatus, Now};

/// An offer that is not fetched for this long is worth a look: agents poll every few seconds.
pub const LATE_FETCH_MS: u64 = 5 * 60 * 1_000;

/// A stage that runs for this long, or for half its deadline, is worth a look.
pub const STUCK_STAGE_MS: u64 = 60 * 60 * 1_000;

/// Patience with the engine: less than a scraper's.
const SCRAPE_PATIENCE: Duration = Duration::from_secs(3);

/// A release in memory, in numbers.
#[derive(Debug)]
pub struct ReleaseNumbers {
    pub id: String,
    pub state: &'static str,
    pub is_over: bool,
    pub counts: Counts,
    pub not_fetched: u32,
    pub stuck: u32,
}

/// Every release in memory, all at the same moment.
pub async fn releases(ctx: &Context) -> Result<Vec<ReleaseNumbers>, EngineError> {
    let now = ctx.engine.clock().now();
    let all =
        move |state: &Snapshot| state.releases.values().map(|found| numbers(state, found, now)).collect();
    ctx.engine.read_apart(SCRAPE_PATIENCE, all).await
}

fn numbers(state: &Snapshot, release: &Release, now: Now) -> ReleaseNumbers {
    let mut numbers = ReleaseNumbers {
        id: release.id.to_string(),
        state: release.state.name(),
        is_over: release.state.is_over(),
        counts: release.counts,
        not_fetched: 0,
        stuck: 0,
    };
    for (child, assignment) in &release.assignments {
        numbers.not_fetched += u32::from(is_late(state, release, *child, assignment, now));
        numbers.stuck += u32::from(is_stuck(state, release, Member { child: *child, part: assignment }, now));
    }
    numbers
}

fn is_late(state: &Snapshot, release: &Release, child: ChildKey, assignment: &Assignment, now: Now) -> bool {
    let waited = |since: u64| release.at(now).saturating_sub(since) >= LATE_FETCH_MS;
    if let Some(undo) = assignment.pending_undo() {
        return !undo.fetched && waited(undo.since);
    }
    let waits = match assignment.status {
        ChildStatus::Todo => true,
        ChildStatus::Doing => !assignment.fetched,
        ChildStatus::No | ChildStatus::Done | ChildStatus::Failed => false,
    };
    waits && waited(assignment.since) && next_action::is_offered(state, release.key, child)
}

fn is_stuck(state: &Snapshot, release: &Release, member: Member<'_>, now: Now) -> bool {
    let deadlines = state.settings.deadlines(&release.strategy, &state.children);
    let half = deadlines.of_member(member).stage_ms / 2;
    let assignment = member.part;
    assignment.status == ChildStatus::Doing
        && assignment.fetched
        && !assignment.stage_status.is_over()
        && release.at(now).saturating_sub(assignment.stage_since) >= STUCK_STAGE_MS.min(half)
}
