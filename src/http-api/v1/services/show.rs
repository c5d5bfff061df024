//! `GET /api/v1/services/{name}`.

use axum::{Json, extract::State};

use crate::{Context, context::PATIENCE, extract::Path, problem::Problem, scope::Scope, v1::traffic::form};
use domain::traffic;
use protocol::api::ServiceDetail;

/// Shows a service: over all its routers, and at each.
#[utoipa::path(get, path = "/api/v1/services/{name}", operation_id = "show_service", tag = "traffic",
    params(("name" = String, Path, description = "The name of the service.")),
    responses((status = 200, body = ServiceDetail)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(name): Path<String>,
) -> Result<Json<ServiceDetail>, Problem> {
    let wanted = name.clone();
    let found = ctx.engine.read_apart(PATIENCE, move |state| {
        let of = scope.routers(state, None);
        let of: Vec<(&str, &traffic::Service)> = of
            .filter_map(|(_, child, router)| Some((child.id.as_str(), router.service(&wanted)?.as_ref())))
            .collect();
        let services: Vec<&traffic::Service> = of.iter().map(|(_, service)| *service).collect();
        let by_router = of.iter().map(|(router, service)| form::routed(router, service)).collect();
        (!services.is_empty())
            .then(|| ServiceDetail { service: form::service(&wanted, &services), by_router })
    });
    found.await?.map(Json).ok_or_else(|| Problem::unknown_service(&name))
}
