//! Releases as lines of a list.

use super::release;
use domain::release::{
    assignment::ReleaseEvent,
    gate::{ALL_OPEN, Gates},
    manager::Agents,
    state::{Counts, Release, ReleaseState, Snapshot},
};
use model::Now;
use protocol::{
    api::{OpenOf, Progress, ReleaseLine},
    time::{of_served, rfc3339},
};
use store::{StoreError, rows::ReleaseRow};

use crate::unreadable::Unreadable;

/// A release in memory.
pub fn in_memory(state: &Snapshot, found: &Release, now: Now) -> ReleaseLine {
    let is_over = found.state.is_over();
    ReleaseLine {
        release: release::release(state, found, now),
        progress: progress(&found.counts, found.participants(), found.agents_below()),
        wave: waves(found).filter(|_| !is_over),
        level: level(&found.gates).filter(|_| !is_over),
        since: since(found, now),
    }
}

/// A release from the store, whose strategy has this name.
pub fn from_row(row: &ReleaseRow, name: String, unreadable: &Unreadable) -> Result<ReleaseLine, StoreError> {
    let detail = release::detail_of(row, unreadable)?;
    Ok(ReleaseLine {
        progress: progress(&detail.counts, detail.participants, detail.agents),
        wave: None,
        level: None,
        since: row.ended_ms.map(rfc3339),
        release: release::with_name(row, &detail, name, unreadable)?,
    })
}

fn progress(counts: &Counts, participants: u32, agents: Option<Agents>) -> Progress {
    match agents {
        None => Progress { ended: counts.done.saturating_add(counts.failed), of: participants },
        Some(agents) => Progress {
            ended: agents.succeeded.saturating_add(agents.bad()).saturating_add(agents.untested),
            of: agents.participants,
        },
    }
}

fn waves(release: &Release) -> Option<OpenOf> {
    let of = release.turns.waves();
    (of > 1).then(|| OpenOf { open: release.gates.stand.waves.min(of), of })
}

fn level(gates: &Gates) -> Option<OpenOf> {
    let (open, of) = (gates.stand.level, u32::from(gates.levels.rollout()) + 1);
    (open < ALL_OPEN).then(|| OpenOf { open: u32::from(open).min(of), of })
}

/// The release's own clock stands still in a pause, and no state but a pause lasts through one.
fn since(release: &Release, now: Now) -> Option<String> {
    let on_its_clock = |at: u64| {
        let ago = release.clock.at(now).saturating_sub(at);
        of_served(now.served_ms.saturating_sub(ago), now)
    };
    match &release.state {
        ReleaseState::Planned => Some(rfc3339(release.submitted.wall_ms)),
        ReleaseState::Running => release.started.map(|at| rfc3339(at.wall_ms)),
        ReleaseState::Paused(_) => release.clock.paused_since.map(|at| of_served(at, now)),
        ReleaseState::AwaitingApproval { since, .. } => Some(on_its_clock(*since)),
        ReleaseState::RollingBack { .. } => {
            let aborted = release.facts.iter().rev().find(|dated| dated.fact == ReleaseEvent::Aborted);
            aborted.map(|dated| on_its_clock(dated.at))
        }
        ReleaseState::Over { .. } => release.ended.map(|at| rfc3339(at.wall_ms)),
    }
}
