//! `GET /api/v1/routers`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Context,
    context::PATIENCE,
    extract::Query,
    problem::Problem,
    scope::Scope,
    v1::{page, traffic::form::FormInputs},
};
use model::{ChildKey, traffic::RouterPhase};
use protocol::api::{Page, Router};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// `idle`, `waiting`, `telling`, `in_force`, `paused`, `accepted`, `superseded`.
    phase: Option<String>,
    /// Only routers that lead this service.
    service: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Items of a page, 1 to 1,000; 100 if not given.
    limit: Option<u32>,
}

/// Lists routers, in the order in which their children came.
#[utoipa::path(get, path = "/api/v1/routers", operation_id = "list_routers", tag = "traffic",
    params(Parameters), responses((status = 200, body = Page<Router>)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Page<Router>>, Problem> {
    let limit = page::limit(parameters.limit)? as usize;
    let after: Option<u32> = page::after(parameters.after.as_deref())?;
    let phase = match parameters.phase.as_deref() {
        None => None,
        Some(name) => Some(RouterPhase::named(name).ok_or_else(|| {
            let known = RouterPhase::ALL.map(RouterPhase::name).join(", ");
            Problem::bad_request(format!("`phase` is one of {known}"))
        })?),
    };
    let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
    let page = ctx.engine.read_apart(PATIENCE, move |state| {
        let look = FormInputs { seen: seen.as_ref(), now };
        let is_wanted = |router: &domain::traffic::Router| {
            phase.is_none_or(|phase| router.phase == phase)
                && parameters.service.as_deref().is_none_or(|name| router.service(name).is_some())
        };
        let known = scope.routers(state, after.map(ChildKey)).filter(|(.., router)| is_wanted(router));
        let mut found: Vec<(ChildKey, Router)> = known
            .take(limit + 1)
            .map(|(key, child, router)| (key, look.router(key, child, router)))
            .collect();
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(|(key, _)| key.0.to_string());
        Page { items: found.into_iter().map(|(_, router)| router).collect(), next }
    });
    Ok(Json(page.await?))
}
