//! `GET /api/v1/services/{name}`.

use std::sync::Arc;

use axum::{Json, extract::State};

use crate::{Context, context::PATIENCE, extract::Path, problem::Problem, v1::traffic::form::Look};
use heart::traffic;
use wire::api::ServiceDetail;

/// Shows a service: over all its routers, and at each.
#[utoipa::path(get, path = "/api/v1/services/{name}", operation_id = "show_service", tag = "traffic",
    params(("name" = String, Path, description = "The name of the service.")),
    responses((status = 200, body = ServiceDetail)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(name): Path<String>,
) -> Result<Json<ServiceDetail>, Problem> {
    let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
    let wanted = name.clone();
    let found = ctx.engine.read_apart(PATIENCE, move |state| {
        let look = Look { state, seen: seen.as_ref(), now };
        let of = state.traffic.of_service(&wanted);
        let of: Vec<(&str, &traffic::Service)> = of
            .filter_map(|(key, _, service)| Some((state.children.get(key)?.id.as_str(), service.as_ref())))
            .collect();
        let services: Vec<&traffic::Service> = of.iter().map(|(_, service)| *service).collect();
        let by_router = of.iter().map(|(router, service)| look.routed(router, service)).collect();
        (!services.is_empty()).then(|| ServiceDetail { service: look.service(&wanted, &services), by_router })
    });
    found.await?.map(Json).ok_or_else(|| Problem::unknown_service(&name))
}
