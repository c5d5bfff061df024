//! `GET /api/v1/ab-releases`.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::lookup::of_row;
use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::{page, registry, tenant::tenant_of},
};
use ab_releases::{Kind, Status};
use protocol::ab_releases::ABRelease;
use store::{MAX_PAGE, ServiceFilter};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(super) struct Parameters {
    /// Only those of this environment: its UUID or its name.
    environment_id: Option<String>,
    /// Only those with this status.
    status: Option<String>,
    /// Where the page begins; the `Link` of the one before says it.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Releases that are looked through for one page.
const MAX_LOOKED: usize = 10_000;

/// Lists A/B releases, newest first.
#[utoipa::path(get, path = "/api/v1/ab-releases", operation_id = "list_ab_releases", tag = "progressive delivery",
    params(Parameters), responses((status = 200, body = Vec<ABRelease>, headers(("Link" = String)))))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    let Parameters { environment_id, status, after, limit } = parameters;
    let (tenant, limit) = (tenant_of(&scope), page::limit(limit)?);
    if let Some(status) = status.as_deref().filter(|status| !Status::NAMES.contains(status)) {
        let detail = format!("`status` {status:?} is none of {}", Status::NAMES.join(", "));
        return Err(Problem::bad_request(detail));
    }
    let uuid = |named: &str| registry::id_of(Kind::Environment, tenant, named);
    let mut filter = ServiceFilter {
        tenant: scope.tenant().map(|own| own.as_str().to_owned()),
        before: page::after(after.as_deref())?,
        environment_id: environment_id.as_deref().map(uuid),
        limit: if status.is_some() { MAX_PAGE } else { limit },
    };
    let (mut items, mut looked): (Vec<ABRelease>, usize) = (Vec::new(), 0);
    let next = 'pages: loop {
        let rows = ctx.engine.reader().service_releases(&filter).await?;
        let is_last = rows.len() < filter.limit as usize;
        for row in rows {
            let key = row.release_key;
            looked += 1;
            if let Some(found) = of_row(&ctx, row).await? {
                let shown = found.in_short();
                if status.as_ref().is_none_or(|status| *status == shown.status) {
                    items.push(shown);
                }
            }
            if items.len() >= limit as usize || looked >= MAX_LOOKED {
                break 'pages Some(key.to_string());
            }
            filter.before = Some(key);
        }
        if is_last {
            break None;
        }
    };
    let limit = limit.to_string();
    let query = [
        ("environmentId", environment_id.as_deref()),
        ("status", status.as_deref()),
        ("after", next.as_deref()),
        ("limit", Some(&limit)),
    ];
    let query: Vec<(&str, &str)> = query.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    Ok(page::linked("/api/v1/ab-releases", &items, &query))
}
