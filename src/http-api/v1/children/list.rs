//! `GET /api/v1/children`.

use std::time::Duration;

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::{
        page::{self, path_below, unheard},
        releases::list_query::MAX_NAME_CHARS,
    },
};
use domain::children::Child as Record;
use engine::questions::children::{self, ChildrenWanted, Filter};
use model::{ChildKey, ChildKind};
use protocol::api::{Child, Page};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only children with this label: `tier:edge`.
    label: Option<String>,
    /// `agent` or `rm`.
    kind: Option<String>,
    /// `open`, `cordoned`, `drained`.
    cordon: Option<String>,
    /// Only children that have not called for this long: `90s`, `5m`, `2h`.
    silent_for: Option<String>,
    /// Only the child of this id, those whose ids begin so, where these are four characters or more, and those that call themselves so.
    named: Option<String>,
    /// Only children outside of this manager's area.
    outside: bool,
    /// The children of a manager below: the ids that lead to it, with a `/` between. It is asked now, and nothing of it is kept.
    below: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Which children are wanted.
fn read(parameters: Parameters) -> Result<Filter, Problem> {
    let Parameters { label, kind, cordon, silent_for, named, .. } = parameters;
    let none = |what: &str, known: &str| Problem::bad_request(format!("`{what}` is one of {known}"));
    if kind.as_deref().is_some_and(|kind| ChildKind::named(kind).is_none()) {
        return Err(none("kind", &ChildKind::NAMES.join(", ")));
    }
    if cordon.as_deref().is_some_and(|cordon| !matches!(cordon, "open" | "cordoned" | "drained")) {
        return Err(none("cordon", "open, cordoned, drained"));
    }
    if named.as_ref().is_some_and(|named| named.chars().count() > MAX_NAME_CHARS) {
        return Err(Problem::bad_request(format!("`named` has at most {MAX_NAME_CHARS} characters")));
    }
    let label = label.map(|label| match label.split_once(':') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(Problem::bad_request("`label` looks like tier:edge")),
    });
    let silent = silent_for.map(|text| {
        duration(&text).ok_or_else(|| Problem::bad_request("`silent_for` looks like 90s, 5m or 2h"))
    });
    let silent_ms = silent.transpose()?.map(|silent| silent.as_millis() as u64);
    Ok(Filter { label: label.transpose()?, kind, cordon, silent_ms, named })
}

/// A whole number of seconds, minutes, hours or days.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    number.checked_mul(seconds).filter(|seconds| *seconds <= MAX_SILENCE_S).map(Duration::from_secs)
}

/// Longest silence that can be asked for: ten years, in seconds.
const MAX_SILENCE_S: u64 = 10 * 366 * 86_400;

/// Lists children, oldest first.
#[utoipa::path(get, path = "/api/v1/children", operation_id = "list_children", tag = "children",
    params(Parameters), responses((status = 200, body = Page<Child>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    let limit = page::limit(parameters.limit)?;
    let after = page::after(parameters.after.as_deref())?;
    let path = path_below(&ctx, &scope, parameters.below.as_deref()).await?;
    let (only_outside, filter) = (parameters.outside, read(parameters)?);
    if !path.is_empty() {
        if only_outside {
            let detail = "`outside` is about this manager's own area; with `below` it says nothing";
            return Err(Problem::bad_request(detail));
        }
        let wanted = ChildrenWanted { path, filter, after, limit };
        let mut page = children::ask_below(&ctx.engine, wanted).await.map_err(|why| unheard(&why))?;
        // A manager below serves others too; who is whose is said there by labels as well.
        page.items.retain(|child| scope.sees_labels(&child.labels));
        page.items = page.items.into_iter().map(|child| scope.child(child)).collect();
        return page::answer(move || page).await;
    }
    let own = ctx.settings.service_area.clone();
    if only_outside && own.is_none() {
        // Without an area of its own, nobody is outside of it.
        return page::answer(|| Page::<Child> { items: Vec::new(), next: None }).await;
    }
    let tenant = scope.tenant().cloned();
    let admit = move |record: &Record, child: Child| {
        let outside = own.as_deref().is_some_and(|own| own.is_outside(record.area.as_deref()));
        let is_wanted = (outside || !only_outside) && scope.sees_child(record);
        is_wanted.then(|| scope.child(Child { outside, ..child }))
    };
    let page =
        children::page(&ctx.engine, filter, tenant, after.map(ChildKey), limit as usize, admit).await?;
    page::answer(move || page).await
}
