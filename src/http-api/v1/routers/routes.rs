//! `GET /api/v1/routers/{id}/routes`.

use axum::{Json, extract::State};

use crate::{Context, context::PATIENCE, extract::Path, problem::Problem, v1::traffic::form};
use protocol::api::RouteConfig;

/// Shows what a router leads, as the document *Progressive delivery* has it: weights in percent, times in seconds.
#[utoipa::path(get, path = "/api/v1/routers/{id}/routes", operation_id = "list_routes", tag = "traffic",
    params(("id" = String, Path, description = "The id of the child that leads it.")),
    responses((status = 200, body = Vec<RouteConfig>, description = "In the order of the services' names.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(id): Path<String>,
) -> Result<Json<Vec<RouteConfig>>, Problem> {
    let wanted = id.clone();
    let found = ctx.engine.read_apart(PATIENCE, move |state| {
        let router = state.traffic.get(state.children.key(&wanted)?)?;
        let mut routes: Vec<RouteConfig> = router.services().map(|service| form::route(service)).collect();
        routes.sort_by(|a, b| a.upstream.cmp(&b.upstream));
        Some(routes)
    });
    found.await?.map(Json).ok_or_else(|| Problem::unknown_router(&id))
}
