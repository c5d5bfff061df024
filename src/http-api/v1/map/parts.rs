//! The parts of children in a release, from memory or from the store.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::rows::{Part, Rows, parts};
use crate::{Context, context::PATIENCE, problem::Problem, scope::Scope};
use domain::release::state::Snapshot;
use engine::blocking;
use language::Strategy;

/// Children of a release that is over, read at once.
const PAGE: u32 = 20_000;

/// What a map shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The id in the manager; `None`: the fleet.
    pub release: Option<String>,
    pub scope: Scope,
}

/// A map, and whether what it shows is over and has left memory.
pub struct MapView {
    pub rows: Rows,
    pub is_past: bool,
    pub strategy: Option<Arc<Strategy>>,
    /// How long it was worked at.
    pub worked: Duration,
}

/// Looks at all children, apart from the tasks that answer calls.
pub async fn look(ctx: &Context, subject: &Subject) -> Result<MapView, Problem> {
    let (wanted, now) = (subject.clone(), ctx.engine.clock().now());
    let seen = Arc::clone(&ctx.view().children);
    let take = move |state: &Snapshot| {
        let Subject { release, scope } = &wanted;
        let (rows, strategy, worked) = if let Some(id) = release {
            let release = state.release_by_id(id)?;
            let (rows, worked) = blocking::timed(|| Rows::of_release(state, scope, &parts(release)));
            (rows, Some(Arc::clone(&release.strategy)), worked)
        } else {
            let (rows, worked) = blocking::timed(|| Rows::of_fleet(state, scope, &*seen, now));
            (rows, None, worked)
        };
        Some(MapView { rows, is_past: false, strategy, worked })
    };
    if let Some(found) = ctx.engine.read_apart(PATIENCE, take).await? {
        return Ok(found);
    }
    let id = subject.release.as_deref().unwrap_or_default();
    past(ctx, id, subject.scope.clone()).await
}

/// One that has left memory, a bounded number of children at a time. What the store does for it counts as work.
async fn past(ctx: &Context, id: &str, scope: Scope) -> Result<MapView, Problem> {
    let began = Instant::now();
    let past = ctx.engine.past(id).await?.ok_or_else(|| Problem::unknown_release(id))?;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = past.page(after, PAGE).await?;
        found.extend(parts(&page.release));
        after = page.next;
        if after.is_none() {
            let strategy = Some(Arc::clone(&page.release.strategy));
            let take = move |state: &Snapshot| Rows::of_release(state, &scope, &found);
            let rows = ctx.engine.read_apart(PATIENCE, take).await?;
            return Ok(MapView { rows, is_past: true, strategy, worked: began.elapsed() });
        }
    }
}

/// The part of one child.
pub async fn of_child(ctx: &Context, id: &str, number: u32) -> Result<Option<Part>, Problem> {
    let key = model::ChildKey(number);
    let wanted = id.to_owned();
    let take = move |state: &Snapshot| {
        let release = state.release_by_id(&wanted)?;
        Some(release.assignments.get(&key).map(|part| Part::of(key, part)))
    };
    if let Some(found) = ctx.engine.read(PATIENCE, take).await? {
        return Ok(found);
    }
    let before = number.checked_sub(1).map(model::ChildKey);
    let past = ctx.engine.past(id).await?.ok_or_else(|| Problem::unknown_release(id))?;
    let page = past.page(before, 1).await?;
    Ok(page.release.assignments.get(&key).map(|part| Part::of(key, part)))
}
