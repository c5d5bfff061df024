//! `GET /api/v1/versions`.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::{page, registry, tenant::tenant_of},
};
use wire::progressive::{RegisteredVersion, VersionSpec};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// Only names behind this one; the `Link` of a page says it of the next.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists versions, by name.
#[utoipa::path(get, path = "/api/v1/versions", operation_id = "list_versions", tag = "progressive delivery",
    params(Parameters), responses((status = 200, body = Vec<RegisteredVersion>, headers(("Link" = String)))))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Problem> {
    let limit = page::limit(parameters.limit)?;
    let tenant = tenant_of(&scope);
    let (items, next) =
        registry::list::<VersionSpec>(&ctx, tenant, parameters.after.as_deref(), limit).await?;
    let limit = limit.to_string();
    let query: Vec<(&str, &str)> =
        next.iter().flat_map(|next| [("after", next.as_str()), ("limit", limit.as_str())]).collect();
    Ok(page::linked("/api/v1/versions", &items, &query))
}
