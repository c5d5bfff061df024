//! `GET /api/v1/callers/unknown`.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    v1::{page, time::rfc3339},
};
use protocol::api::{Page, UnknownCaller};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists calls, other than polls, by ids that are not known here. Kept in memory, the latest thousand.
#[utoipa::path(get, path = "/api/v1/callers/unknown", operation_id = "list_unknown_callers", tag = "children",
    params(Parameters), responses((status = 200, body = Page<UnknownCaller>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<UnknownCaller>>, Problem> {
    let limit = page::limit(parameters.limit)? as usize;
    let from: usize = page::after(parameters.after.as_deref())?.unwrap_or_default();
    let callers = ctx.view().unknown_callers.all();
    let more = callers.len() > from.saturating_add(limit);
    let items = callers.into_iter().skip(from).take(limit).map(|caller| UnknownCaller {
        id: caller.id,
        call: caller.call.to_owned(),
        count: caller.count,
        last: rfc3339(caller.last_ms),
    });
    let items = items.collect();
    Ok(Json(Page { items, next: more.then(|| (from + limit).to_string()) }))
}
