//! Canaries, from memory or from the store, as they are shown.

use std::collections::{BTreeSet, HashMap};

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
use canary_releases::{Details, Life, Live, Told, show};
use domain::{
    release::{
        assignment::Assignment,
        state::{Release, ReleaseState, Snapshot},
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
        let (progress, live) = if let Some((progress, live)) = in_memory.remove(&row.release_key) {
            (progress, Some(live))
        } else {
            let Some(stored) = ctx.engine.reader().release(&recorded.release).await? else { continue };
            let progress = Progress::stored(&stored);
            (progress.inspect_err(|error| ctx.engine.unreadable().note(error))?, None)
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
        // Who has proven that it went back may lead the service no more, and then doesn't tell of it either.
        ChildStatus::Todo | ChildStatus::Doing | ChildStatus::Done | ChildStatus::Failed => {
            is_under_way || (part.fetched && !part.may_run_new().is_empty())
        }
    };
    let has_gone_back =
        |part: &Assignment| part.status == ChildStatus::Failed && part.may_run_new().is_empty();
    let (mut routers, mut unread, mut last) = (0, Vec::new(), None::<i64>);
    let names = release.strategy.services.iter().map(language::Service::name);
    let mut parts: Vec<(&str, u32, Vec<&Service>)> = names.map(|name| (name, 0, Vec::new())).collect();
    for (child, part) in release.assignments.range(..).filter(|(_, part)| is_to_tell(part)) {
        routers += 1;
        let router = state.traffic.get(*child);
        let mut tells = false;
        for (name, telling, services) in &mut parts {
            let service = router.and_then(|router| router.service(name));
            let service = service.filter(|service| service.is_of(release.key));
            *telling += u32::from(service.is_some() || has_gone_back(part));
            last = last.max(service.map(|service| service.since.wall_ms));
            tells |= service.is_some();
            services.extend(service.map(|service| &**service));
        }
        if let Some(router) = router.filter(|router| tells && !router.is_reached) {
            last = last.max(Some(router.since.wall_ms));
            unread.extend(state.children.get(*child).map(|child| child.id.to_string()));
        }
    }
    // To look at all their open releases takes a while, and it is said only of one that waits for that.
    let is_waiting =
        release.state == ReleaseState::Running && release.times.iter().all(|timed| timed.stage.is_none());
    let busy = if is_waiting { others_in_hand(state, release) } else { BTreeSet::new() };
    let since = |served_ms: u64| {
        let ago = now.served_ms.saturating_sub(served_ms);
        now.wall_ms.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX))
    };
    Live {
        waits_for: waits::release(state, release, now),
        busy: busy.iter().map(|other| caller.name(other).to_owned()).collect(),
        paused: release.clock.paused_since.map(since),
        routers,
        parts: parts
            .into_iter()
            .map(|(_, routers, services)| Told { routers, sums: sums(services) })
            .collect(),
        told: last,
        unread,
    }
}
