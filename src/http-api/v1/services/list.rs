//! `GET /api/v1/services`.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    context::PATIENCE,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::{page, traffic::form},
};
use domain::traffic;
use protocol::api::{Page, Service};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists services by name, each over all its routers.
#[utoipa::path(get, path = "/api/v1/services", operation_id = "list_services", tag = "traffic",
    params(Parameters), responses((status = 200, body = Page<Service>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<Service>>, Problem> {
    let limit = page::limit(parameters.limit)? as usize;
    let after = parameters.after.unwrap_or_default();
    let page = ctx.engine.read_apart(PATIENCE, move |state| {
        let mut by_name: BTreeMap<&str, Vec<&traffic::Service>> = BTreeMap::new();
        for (.., router) in scope.routers(state, None) {
            for service in router.services().filter(|service| service.name.as_str() > after.as_str()) {
                by_name.entry(&service.name).or_default().push(service);
            }
        }
        let has_more = by_name.len() > limit;
        let items: Vec<Service> =
            by_name.into_iter().take(limit).map(|(name, of)| form::service(name, &of)).collect();
        let next = items.last().filter(|_| has_more).map(|service| service.name.clone());
        Page { items, next }
    });
    Ok(Json(page.await?))
}
