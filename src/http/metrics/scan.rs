//! Numbers about releases that are not over, read from the engine's state in short slices.

use std::{ops::Bound, time::Duration};

use crate::Context;
use engine::EngineError;
use heart::release::{
    assignment::Assignment,
    state::{Counts, Release, Snapshot},
    turn,
};
use model::{ChildKey, ChildStatus, Now, ReleaseKey};

/// An offer that is not fetched for this long is worth a look: agents poll every few seconds.
pub const LATE_FETCH_MS: u64 = 5 * 60 * 1_000;

/// A stage that runs for this long, or for half its deadline, is worth a look.
pub const STUCK_STAGE_MS: u64 = 60 * 60 * 1_000;

/// Patience with the engine: less than a scraper's.
const SCRAPE_PATIENCE: Duration = Duration::from_secs(3);

/// Assignments looked at by one question to the engine.
const SLICE: usize = 10_000;

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

/// Where the next slice begins: at a release, after one of its children.
type Cursor = (ReleaseKey, Option<ChildKey>);

/// Every release in memory.
pub async fn releases(ctx: &Context) -> Result<Vec<ReleaseNumbers>, EngineError> {
    let mut found: Vec<ReleaseNumbers> = Vec::new();
    let mut at: Option<Cursor> = Some((ReleaseKey(0), None));
    while let Some(from) = at {
        let now = ctx.engine.clock().now();
        let (part, next) = ctx.engine.read(SCRAPE_PATIENCE, move |state| slice(state, from, now)).await?;
        for numbers in part {
            match found.last_mut().filter(|last| last.id == numbers.id) {
                Some(last) => {
                    last.not_fetched += numbers.not_fetched;
                    last.stuck += numbers.stuck;
                }
                None => found.push(numbers),
            }
        }
        at = next;
    }
    Ok(found)
}

fn slice(state: &Snapshot, from: Cursor, now: Now) -> (Vec<ReleaseNumbers>, Option<Cursor>) {
    let mut found = Vec::new();
    let mut looked = 0;
    let (first, mut after) = from;
    for (key, release) in state.releases.range(first..) {
        let mut numbers = ReleaseNumbers {
            id: release.id.to_string(),
            state: release.state.name(),
            is_over: release.state.is_over(),
            counts: release.counts,
            not_fetched: 0,
            stuck: 0,
        };
        let begin = after.take().map_or(Bound::Unbounded, Bound::Excluded);
        for (child, assignment) in release.assignments.range((begin, Bound::Unbounded)) {
            numbers.not_fetched += u32::from(is_late(state, release, *child, assignment, now));
            numbers.stuck += u32::from(is_stuck(state, release, assignment, now));
            looked += 1;
            if looked >= SLICE {
                found.push(numbers);
                return (found, Some((*key, Some(*child))));
            }
        }
        found.push(numbers);
    }
    (found, None)
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
    waits && waited(assignment.since) && turn::is_offered(state, release.key, child)
}

fn is_stuck(state: &Snapshot, release: &Release, assignment: &Assignment, now: Now) -> bool {
    let half = state.settings.deadlines(&release.strategy).of_member(assignment).stage_ms / 2;
    assignment.status == ChildStatus::Doing
        && assignment.fetched
        && !assignment.stage_status.is_over()
        && release.at(now).saturating_sub(assignment.stage_since) >= STUCK_STAGE_MS.min(half)
}
