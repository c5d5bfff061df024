//! `GET /api/v1/children`.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form;
use crate::{
    engine::view::View,
    http::{
        Context,
        context::PATIENCE,
        extract::Query,
        problem::Problem,
        service_area::ServiceArea,
        v1::page::{self, SCAN_SLICE},
    },
    model::{ChildKey, Now},
    release::{
        command::Seen as _,
        state::{Child as Record, State as Known},
        waits::Look,
    },
    wire::api::{Child, Page},
};

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
    /// Only children outside of this manager's area.
    outside: bool,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Which children are wanted.
#[derive(Debug, Clone, Default)]
struct Filter {
    label: Option<(String, String)>,
    kind: Option<String>,
    cordon: Option<String>,
    silent_ms: Option<u64>,
    outside: bool,
}

impl Filter {
    fn read(parameters: Parameters) -> Result<Self, Problem> {
        let Parameters { label, kind, cordon, silent_for, outside, .. } = parameters;
        let none = |what: &str, known: &str| Problem::bad_request(format!("`{what}` is one of {known}"));
        if kind.as_deref().is_some_and(|kind| !matches!(kind, "agent" | "rm")) {
            return Err(none("kind", "agent, rm"));
        }
        if cordon.as_deref().is_some_and(|cordon| !matches!(cordon, "open" | "cordoned" | "drained")) {
            return Err(none("cordon", "open, cordoned, drained"));
        }
        let label = label.map(|label| match label.split_once(':') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(Problem::bad_request("`label` looks like tier:edge")),
        });
        let silent = silent_for.map(|text| {
            duration(&text).ok_or_else(|| Problem::bad_request("`silent_for` looks like 90s, 5m or 2h"))
        });
        let silent_ms = silent.transpose()?.map(|silent| silent.as_millis() as u64);
        Ok(Self { label: label.transpose()?, kind, cordon, silent_ms, outside })
    }

    fn wants(&self, view: &View, now: Now, key: ChildKey, record: &Record) -> bool {
        let silent = || view.last_call(key).map_or(u64::MAX, |at| now.served_ms.saturating_sub(at));
        // An id whose place another has taken is nobody; asked for by name it is shown.
        record.replaced.is_none()
            && self.label.as_ref().is_none_or(|(k, v)| form::label(record, k) == Some(v))
            && self.kind.as_ref().is_none_or(|kind| record.kind().name() == kind)
            && self.cordon.as_ref().is_none_or(|cordon| form::cordon_name(record.cordon) == cordon)
            && self.silent_ms.is_none_or(|ms| silent() >= ms)
    }
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
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<Child>>, Problem> {
    let limit = page::limit(parameters.limit)? as usize;
    let mut after = page::after(parameters.after.as_deref())?.map(ChildKey);
    let filter = Filter::read(parameters)?;
    let own = ctx.settings.service_area.clone();
    if filter.outside && own.is_none() {
        return Err(Problem::bad_request(
            "this manager doesn't know its own area: name it in parent.area_file",
        ));
    }
    let mut items = Vec::new();
    loop {
        let (view, now) = (Arc::clone(ctx.engine.view()), ctx.engine.clock().now());
        let (wanted, own, missing) = (filter.clone(), own.clone(), limit - items.len());
        let slice = ctx
            .engine
            .query(PATIENCE, move |state| take(state, &view, now, after, missing, &wanted, own.as_deref()));
        let (children, next) = slice.await?;
        items.extend(children);
        after = next;
        if after.is_none() || items.len() >= limit {
            break;
        }
    }
    Ok(Json(Page { items, next: after.map(|key| key.0.to_string()) }))
}

/// Looks at a bounded number of children.
fn take(
    state: &Known,
    view: &View,
    now: Now,
    after: Option<ChildKey>,
    limit: usize,
    filter: &Filter,
    own: Option<&ServiceArea>,
) -> (Vec<Child>, Option<ChildKey>) {
    let look = Look { state, seen: view, now, since: view.listening_since() };
    let mut children = Vec::new();
    let mut rest = state.children.after(after).enumerate().peekable();
    while let Some((looked, (key, record))) = rest.next() {
        if filter.wants(view, now, key, record) {
            let outside = own.is_some_and(|own| own.is_outside(record.area.as_deref()));
            if outside || !filter.outside {
                children.push(Child { outside, ..form::child(&look, key, record) });
            }
        }
        if children.len() >= limit || looked + 1 >= SCAN_SLICE {
            return (children, rest.peek().map(|_| key));
        }
    }
    (children, None)
}
