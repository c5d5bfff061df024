//! `GET /api/v1/releases`.

use std::collections::HashMap;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form;
use crate::{Context, context::PATIENCE, extract::Query, problem::Problem, scope::Scope, v1::page};
use heart::release::state::ReleaseState;
use model::{ReleaseKey, TenantName};
use store::ReleaseFilter;
use wire::api::{Page, Release};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only releases in this state.
    state: Option<String>,
    /// Only releases that change this function.
    function: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists releases, newest first.
#[utoipa::path(get, path = "/api/v1/releases", operation_id = "list_releases", tag = "releases",
    params(Parameters), responses((status = 200, body = Page<Release>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<Release>>, Problem> {
    let limit = page::limit(parameters.limit)?;
    if let Some(state) = parameters.state.as_deref().filter(|state| !ReleaseState::NAMES.contains(state)) {
        let detail = format!("`state` {state:?} is none of {}", ReleaseState::NAMES.join(", "));
        return Err(Problem::bad_request(detail));
    }
    let filter = ReleaseFilter {
        before: page::after(parameters.after.as_deref())?,
        state: parameters.state,
        function: parameters.function,
        prefix: scope.tenant().map(TenantName::prefix),
        limit,
    };
    let rows = ctx.engine.reader().releases(&filter).await?;
    let open: Vec<ReleaseKey> =
        rows.iter().filter(|row| row.open).map(|row| ReleaseKey(row.release_key)).collect();
    let now = ctx.engine.clock().now();
    let mut in_memory: HashMap<ReleaseKey, Release> = ctx
        .engine
        .read(PATIENCE, move |state| {
            let open = open.into_iter().filter_map(|key| state.release(key));
            open.map(|release| (release.key, form::release(state, release, now))).collect()
        })
        .await?;
    let next = rows.last().filter(|_| rows.len() == limit as usize).map(|row| row.release_key.to_string());
    let items = rows
        .iter()
        .map(|row| match in_memory.remove(&ReleaseKey(row.release_key)) {
            Some(release) => Ok(release),
            None => form::from_row(row, ctx.engine.unreadable()),
        })
        .collect::<Result<_, _>>()?;
    Ok(Json(Page { items, next }))
}
