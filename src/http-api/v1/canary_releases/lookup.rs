//! Canaries, from memory or from the store, as they are shown.

use std::collections::HashMap;

use axum::http::StatusCode;

use crate::{
    Context,
    context::PATIENCE,
    problem::Problem,
    scope::Scope,
    v1::{
        ab_releases::lookup::{Progress, row_of},
        releases::canary::others_in_hand,
    },
};
use ab_releases::Recorded;
use canary_releases::{Details, Life, Live, marks, show};
use domain::{
    release::{
        assignment::Assignment,
        state::{Release, Snapshot},
        waits,
    },
    traffic::{Service, sums},
};
use engine::json_columns;
use model::{ChildStatus, Now, ReleaseKey};
use protocol::canary_releases::{CanaryRelease, ReleaseSpec};
use store::rows::ServiceReleaseRow;

/// By its name, or its UUID.
pub(super) async fn find(ctx: &Context, scope: &Scope, named: &str) -> Result<CanaryRelease, Problem> {
    let row = row_of(ctx, scope, named).await?.ok_or_else(|| unknown(named))?;
    let recorded = recorded(ctx, &row)?;
    let found = look(ctx, scope, vec![(row, recorded)]).await?;
    found.into_iter().next().ok_or_else(|| unknown(named))
}

fn unknown(named: &str) -> Problem {
    let named: String = named.chars().filter(|c| !c.is_control()).take(100).collect();
    let detail = format!("there is no canary release {named}");
    Problem::new(StatusCode::NOT_FOUND, "unknown-canary-release", detail)
}

/// What can't change any more of a release of a service.
pub(super) fn recorded(ctx: &Context, row: &ServiceReleaseRow) -> Result<Recorded, Problem> {
    let recorded = json_columns::service_release(row);
    Ok(recorded.inspect_err(|error| ctx.engine.unreadable().note(error))?)
}

/// Those of these releases that are canaries, and have not left the history.
pub(super) async fn look(
    ctx: &Context,
    scope: &Scope,
    rows: Vec<(ServiceReleaseRow, Recorded)>,
) -> Result<Vec<CanaryRelease>, Problem> {
    let keys: Vec<ReleaseKey> = rows.iter().map(|(row, _)| ReleaseKey(row.release_key)).collect();
    let (now, caller) = (ctx.engine.clock().now(), scope.clone());
    let in_memory = move |state: &Snapshot| {
        let found = keys.into_iter().filter_map(|key| state.release(key));
        let each = found.map(|found| (found.key.0, (Progress::of(found), live(state, found, &caller, now))));
        each.collect::<HashMap<u32, (Progress, Live)>>()
    };
    let mut in_memory = ctx.engine.read_apart(PATIENCE, in_memory).await?;
    let mut shown = Vec::new();
    for (row, recorded) in rows {
        let (progress, live) = match in_memory.remove(&row.release_key) {
            Some((progress, live)) => (progress, Some(live)),
            None => {
                let Some(stored) = ctx.engine.reader().release(&recorded.release).await? else { continue };
                let progress = Progress::stored(&stored);
                (progress.inspect_err(|error| ctx.engine.unreadable().note(error))?, None)
            }
        };
        if progress.adopts.is_none() {
            continue;
        }
        // It was written here, and what can't be read of it is left out of what is shown.
        let adopted = progress.adopts.as_ref();
        let adopted = adopted.and_then(|of| serde_json::from_str::<ReleaseSpec>(&of.detail).ok());
        let details = Details { adopted: adopted.as_ref(), uid: &row.id, by: row.actor.as_deref() };
        let life = Life {
            strategy: &progress.strategy,
            course: progress.course(),
            recorded: &recorded,
            is_open: progress.is_open,
            ending: progress.ending.as_deref(),
            submitted: progress.submitted,
            live: live.as_ref(),
        };
        shown.push(show(details, &life));
    }
    Ok(shown)
}

/// What is known of a canary in memory alone.
fn live(state: &Snapshot, release: &Release, caller: &Scope, now: Now) -> Live {
    let is_under_way = release.state.is_under_way();
    let is_to_tell = |part: &Assignment| match part.status {
        ChildStatus::No => false,
        ChildStatus::Todo | ChildStatus::Doing | ChildStatus::Done | ChildStatus::Failed => {
            is_under_way || part.fetched
        }
    };
    let (mut routers, mut unread, mut told) = (0, Vec::new(), None::<i64>);
    let mut services: Vec<&Service> = Vec::new();
    for (child, _) in release.assignments.range(..).filter(|(_, part)| is_to_tell(part)) {
        routers += 1;
        let Some(router) = state.traffic.get(*child) else { continue };
        let Some(service) = router.services().find(|service| service.is_of(release.key)) else { continue };
        services.push(service);
        told = told.max(Some(service.since.wall_ms));
        if !router.is_reached {
            told = told.max(Some(router.since.wall_ms));
            unread.extend(state.children.get(*child).map(|child| child.id.to_string()));
        }
    }
    let busy = others_in_hand(state, release);
    let since = |served_ms: u64| {
        let ago = now.served_ms.saturating_sub(served_ms);
        now.wall_ms.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX))
    };
    Live {
        waits_for: waits::release(state, release, now),
        busy: busy.iter().map(|other| caller.name(other).to_owned()).collect(),
        paused: release.clock.paused_since.map(since),
        routers,
        sums: sums(services),
        told,
        unread,
    }
}
