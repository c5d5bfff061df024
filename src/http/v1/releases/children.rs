//! `GET /api/v1/releases/{id}/children`.

use std::{collections::HashMap, ops::Bound, sync::Arc};

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::child_form::{self, Found};
use crate::{
    Context,
    context::PATIENCE,
    extract::{Path, Query},
    problem::Problem,
    v1::page::{self, SCAN_SLICE},
};
use engine::{Engine, view::View};
use heart::release::{
    assignment::Assignment,
    state::{Release, Snapshot},
    waits::Look,
};
use language::Strategy;
use model::{ChildKey, ChildStatus, Now, ReleaseKey};
use store::rows::StageResultRow;
use wire::api::{Page, ReleaseChild};

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
}

impl Filter {
    fn read(parameters: Parameters) -> Result<Self, Problem> {
        let Parameters { status, outcome, stage, .. } = parameters;
        let status = status.map(|name| {
            let found = ChildStatus::ALL.into_iter().find(|status| status.name() == name);
            found.ok_or_else(|| Problem::bad_request(format!("`status` {name:?} is none")))
        });
        if let Some(name) = outcome.as_ref().filter(|name| !OUTCOMES.contains(&name.as_str())) {
            return Err(Problem::bad_request(format!(
                "`outcome` {name:?} is none of {}",
                OUTCOMES.join(", ")
            )));
        }
        Ok(Self { status: status.transpose()?, outcome, stage })
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
    }
}

/// As in [`model::Outcome::name`].
pub(crate) const OUTCOMES: [&str; 8] =
    ["succeeded", "failed", "timed_out", "unreachable", "lost", "undone", "untested", "excluded"];

/// Lists the children of a release, with what each waits for and what it reported.
#[utoipa::path(get, path = "/api/v1/releases/{id}/children", operation_id = "list_release_children",
    tag = "releases",
    params(("id" = String, Path, description = "The id of the strategy."), Parameters),
    responses((status = 200, body = Page<ReleaseChild>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<ReleaseChild>>, Problem> {
    let limit = page::limit(parameters.limit)? as usize;
    let mut after = page::after(parameters.after.as_deref())?.map(ChildKey);
    let filter = Filter::read(parameters)?;
    let mut children: Vec<Found> = Vec::new();
    let (release, strategy) = loop {
        let slice = slice(&ctx, &id, after, limit - children.len(), &filter).await?;
        children.extend(slice.children);
        after = slice.next;
        if after.is_none() || children.len() >= limit {
            break (slice.release, slice.strategy);
        }
    };
    add_results(&ctx.engine, release, &strategy, &mut children).await?;
    let items = children.into_iter().map(|found| found.child).collect();
    Ok(Json(Page { items, next: after.map(|key| key.0.to_string()) }))
}

/// Some children of a release, and where to go on.
struct Slice {
    release: ReleaseKey,
    strategy: Arc<Strategy>,
    children: Vec<Found>,
    next: Option<ChildKey>,
}

/// Looks at a bounded number of children: in memory, or in the store once the release has left memory.
async fn slice(
    ctx: &Context,
    id: &str,
    after: Option<ChildKey>,
    limit: usize,
    filter: &Filter,
) -> Result<Slice, Problem> {
    let (view, now) = (Arc::clone(ctx.engine.view()), ctx.engine.clock().now());
    let (wanted, wanted_id) = (filter.clone(), id.to_owned());
    let in_memory = ctx
        .engine
        .read(PATIENCE, move |state| {
            let release = state.release_by_id(&wanted_id)?;
            Some(take(state, &view, now, release, after, limit, &wanted))
        })
        .await?;
    if let Some(slice) = in_memory {
        return Ok(slice);
    }
    let part = ctx.engine.past(id, after, page::MAX_LIMIT).await?;
    let part = part.ok_or_else(|| Problem::unknown_release(id))?;
    let (view, wanted) = (Arc::clone(ctx.engine.view()), filter.clone());
    let found = ctx.engine.read(PATIENCE, move |state| {
        let mut slice = take(state, &view, now, &part.release, after, limit, &wanted);
        slice.next = slice.next.or(part.next);
        slice
    });
    Ok(found.await?)
}

fn take(
    state: &Snapshot,
    view: &View,
    now: Now,
    release: &Release,
    after: Option<ChildKey>,
    limit: usize,
    filter: &Filter,
) -> Slice {
    let look = Look { state, seen: view, now, since: view.listening_since() };
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut children = Vec::new();
    let mut next = None;
    let mut rest = release.assignments.range((from, Bound::Unbounded)).enumerate().peekable();
    while let Some((looked, (key, assignment))) = rest.next() {
        if filter.wants(release, assignment) {
            children.push(Found { key: *key, child: child_form::child(&look, release, *key, assignment) });
        }
        if children.len() >= limit || looked + 1 >= SCAN_SLICE {
            next = rest.peek().map(|_| *key);
            break;
        }
    }
    Slice { release: release.key, strategy: Arc::clone(&release.strategy), children, next }
}

/// Children whose numbers are this close are asked for at once: the few results between them cost less than a
/// question more.
const MAX_GAP: u32 = 8;

/// Adds what the children reported.
async fn add_results(
    engine: &Engine,
    release: ReleaseKey,
    strategy: &Strategy,
    children: &mut [Found],
) -> Result<(), Problem> {
    let mut rows: HashMap<u32, Vec<StageResultRow>> = HashMap::new();
    for run in children.chunk_by(|one, other| other.key.0 - one.key.0 <= MAX_GAP) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        for row in engine.reader().stage_results(release.0, first.key.0, last.key.0).await? {
            rows.entry(row.child_key).or_default().push(row);
        }
    }
    for found in children {
        let own = rows.remove(&found.key.0).unwrap_or_default();
        found.child.results =
            own.iter().map(|row| child_form::result(strategy, row, engine.unreadable())).collect();
    }
    Ok(())
}
