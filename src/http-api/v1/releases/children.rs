//! `GET /api/v1/releases/{id}/children`.

use std::{collections::HashMap, ops::Bound, sync::Arc};

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::child_form::{self, ListedChild};
use crate::{
    Context,
    context::PATIENCE,
    extract::{Path, Query},
    problem::Problem,
    v1::page,
};
use domain::release::{
    assignment::Assignment,
    state::{Release, Snapshot},
    waits::LineInputs,
};
use engine::{Engine, blocking::giving_way, unreadable::Unreadable, view::Children};
use language::Strategy;
use model::{ChildKey, ChildStatus, Now, Outcome, ReleaseKey};
use protocol::api::{Page, ReleaseChild};
use store::rows::StageResultRow;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only children of this status: `No`, `Todo`, `Doing`, `Done`, `Failed`.
    status: Option<String>,
    /// Only children of this outcome: `succeeded`, `failed`, `timed_out`, `unreachable`, `lost`, `undone`,
    /// `untested`, `excluded`.
    outcome: Option<String>,
    /// Only children whose current stage this is.
    stage: Option<String>,
    /// Only children that have their turn in this wave, from 1.
    wave: Option<u32>,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Which children are wanted.
#[derive(Debug, Clone, Default)]
struct Filter {
    status: Option<ChildStatus>,
    outcome: Option<String>,
    stage: Option<String>,
    wave: Option<u32>,
}

impl Filter {
    fn read(parameters: Parameters) -> Result<Self, Problem> {
        let Parameters { status, outcome, stage, wave, .. } = parameters;
        let status = status.map(|name| {
            let found = ChildStatus::ALL.into_iter().find(|status| status.name() == name);
            found.ok_or_else(|| Problem::bad_request(format!("`status` {name:?} is none")))
        });
        if let Some(name) = outcome.as_ref().filter(|name| !Outcome::NAMES.contains(&name.as_str())) {
            return Err(Problem::bad_request(format!(
                "`outcome` {name:?} is none of {}",
                Outcome::NAMES.join(", ")
            )));
        }
        if wave == Some(0) {
            return Err(Problem::bad_request("`wave` counts from 1"));
        }
        Ok(Self { status: status.transpose()?, outcome, stage, wave })
    }

    fn wants(&self, release: &Release, assignment: &Assignment) -> bool {
        self.status.is_none_or(|status| assignment.status == status)
            && self
                .outcome
                .as_ref()
                .is_none_or(|wanted| assignment.outcome.is_some_and(|outcome| outcome.name() == wanted))
            && self
                .stage
                .as_deref()
                .is_none_or(|stage| child_form::stage_name(&release.strategy, assignment.slot) == Some(stage))
            && self.wave.is_none_or(|wave| assignment.wave.checked_add(1) == Some(wave))
    }
}

/// Lists the children of a release, with what each waits for and what it reported.
#[utoipa::path(get, path = "/api/v1/releases/{id}/children", operation_id = "list_release_children",
    tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy."), Parameters),
    responses((status = 200, body = Page<ReleaseChild>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    let limit = page::limit(parameters.limit)? as usize;
    let after = page::after(parameters.after.as_deref())?.map(ChildKey);
    let filter = Filter::read(parameters)?;
    let found = match in_memory(&ctx, &id, after, limit, &filter).await? {
        Some(found) => found,
        None => past(&ctx, &id, after, limit, &filter).await?,
    };
    let results = results(&ctx.engine, found.release, &found.children).await?;
    page::answer(move || found.into_page(results, ctx.engine.unreadable())).await
}

/// Some children of a release, and where to go on.
struct Slice {
    release: ReleaseKey,
    strategy: Arc<Strategy>,
    children: Vec<ListedChild>,
    next: Option<ChildKey>,
}

impl Slice {
    /// With what the children reported.
    fn into_page(self, mut results: Results, unreadable: &Unreadable) -> Page<ReleaseChild> {
        let items = giving_way(self.children.into_iter()).map(|ListedChild { key, child }| {
            let own = results.remove(&key.0).unwrap_or_default();
            let results = own.iter().map(|row| child_form::result(&self.strategy, row, unreadable)).collect();
            ReleaseChild { results, ..child }
        });
        Page { items: items.collect(), next: self.next.map(|key| key.0.to_string()) }
    }
}

/// `None`: it has left memory.
async fn in_memory(
    ctx: &Context,
    id: &str,
    after: Option<ChildKey>,
    limit: usize,
    filter: &Filter,
) -> Result<Option<Slice>, Problem> {
    let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
    let (id, filter) = (id.to_owned(), filter.clone());
    let take = move |state: &Snapshot| {
        let release = state.release_by_id(&id)?;
        Some(take(state, &seen, now, release, after, limit, &filter))
    };
    Ok(ctx.engine.read_apart(PATIENCE, take).await?)
}

/// From the store, a bounded number of children at a time.
async fn past(
    ctx: &Context,
    id: &str,
    mut after: Option<ChildKey>,
    limit: usize,
    filter: &Filter,
) -> Result<Slice, Problem> {
    let past = ctx.engine.past(id).await?.ok_or_else(|| Problem::unknown_release(id))?;
    let mut children = Vec::new();
    loop {
        let part = past.page(after, page::MAX_LIMIT).await?;
        let (seen, now) = (&ctx.view().children, ctx.engine.clock().now());
        let missing = limit - children.len();
        let take = |state: &Snapshot| take(state, seen, now, &part.release, after, missing, filter);
        let slice = ctx.engine.read(PATIENCE, take).await?;
        children.extend(slice.children);
        after = slice.next.or(part.next);
        if after.is_none() || children.len() >= limit {
            return Ok(Slice { children, next: after, ..slice });
        }
    }
}

fn take(
    state: &Snapshot,
    seen: &Children,
    now: Now,
    release: &Release,
    after: Option<ChildKey>,
    limit: usize,
    filter: &Filter,
) -> Slice {
    let look = LineInputs { state, seen, now, since: seen.listening_since() };
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut children = Vec::new();
    let mut next = None;
    let mut rest = giving_way(release.assignments.range((from, Bound::Unbounded))).peekable();
    while let Some((key, assignment)) = rest.next() {
        if filter.wants(release, assignment) {
            children
                .push(ListedChild { key: *key, child: child_form::child(&look, release, *key, assignment) });
        }
        if children.len() >= limit {
            next = rest.peek().map(|_| *key);
            break;
        }
    }
    Slice { release: release.key, strategy: Arc::clone(&release.strategy), children, next }
}

/// Children whose numbers are this close are asked for at once: the few results between them cost less than a
/// question more.
const MAX_GAP: u32 = 8;

/// What each child reported, by number.
type Results = HashMap<u32, Vec<StageResultRow>>;

/// Reads what the children reported.
async fn results(engine: &Engine, release: ReleaseKey, children: &[ListedChild]) -> Result<Results, Problem> {
    let mut rows = Results::new();
    for run in children.chunk_by(|one, other| other.key.0 - one.key.0 <= MAX_GAP) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        for row in engine.reader().stage_results(release.0, first.key.0, last.key.0).await? {
            rows.entry(row.child_key).or_default().push(row);
        }
    }
    Ok(rows)
}
