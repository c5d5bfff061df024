//! `GET /api/v1/canary-releases`.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::lookup::{look, recorded};
use crate::{Context, extract::Query, problem::Problem, scope::Scope, v1::page};
use protocol::{api::Page, canary_releases::CanaryRelease};
use store::{MAX_PAGE, ServiceFilter};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only those of this registered release, by its name.
    release: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Releases of services that are looked through for one page.
const MAX_LOOKED: usize = 10_000;

/// Lists canaries, newest first. A page may hold fewer than were asked for: `next` goes on.
#[utoipa::path(get, path = "/api/v1/canary-releases", operation_id = "list_canary_releases", tag = "canaries",
    params(Parameters), responses((status = 200, body = Page<CanaryRelease>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    let Parameters { release, after, limit } = parameters;
    let limit = page::limit(limit)? as usize;
    let mut filter = ServiceFilter {
        tenant: scope.tenant().map(|own| own.as_str().to_owned()),
        before: page::after(after.as_deref())?,
        environment_id: None,
        limit: MAX_PAGE,
    };
    let is_wanted = |of: &str| release.as_deref().is_none_or(|wanted| wanted == of);
    let (mut found, mut looked) = (Vec::new(), 0);
    let next = 'pages: loop {
        let rows = ctx.engine.reader().service_releases(&filter).await?;
        let is_last = rows.len() < filter.limit as usize;
        for row in rows {
            let (key, recorded) = (row.release_key, recorded(&ctx, &row)?);
            if recorded.registered_release.as_deref().is_some_and(is_wanted) {
                // Only now it is known that more follow.
                if found.len() == limit {
                    break 'pages filter.before;
                }
                found.push((row, recorded));
            }
            looked += 1;
            filter.before = Some(key);
            if looked >= MAX_LOOKED {
                break 'pages Some(key);
            }
        }
        if is_last {
            break None;
        }
    };
    let (items, next) = (look(&ctx, &scope, found).await?, next.map(|key| key.to_string()));
    page::answer(move || Page::<CanaryRelease> { items, next }).await
}
