//! `GET /api/v1/routers/{id}`.

use std::sync::Arc;

use axum::{Json, extract::State};

use crate::{
    Context,
    context::PATIENCE,
    extract::Path,
    problem::Problem,
    scope::Scope,
    v1::traffic::form::{self, FormInputs},
};
use protocol::api::RouterDetail;

/// Shows a router: what it leads and how, and what was asked of it.
#[utoipa::path(get, path = "/api/v1/routers/{id}", operation_id = "show_router", tag = "traffic",
    params(("id" = String, Path, description = "The id of the child that leads it.")),
    responses((status = 200, body = RouterDetail)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
) -> Result<Json<RouterDetail>, Problem> {
    let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
    let wanted = id.clone();
    let found = ctx.engine.read_apart(PATIENCE, move |state| {
        let look = FormInputs { seen: seen.as_ref(), now };
        let (key, child) = state.children.by_id(&wanted).filter(|(_, child)| scope.sees_child(child))?;
        let router = state.traffic.get(key)?;
        let mut led: Vec<_> = router.services().map(|service| form::routed(&wanted, service)).collect();
        led.sort_by(|a, b| a.service.cmp(&b.service));
        let mut orders: Vec<_> = router.orders.iter().map(|order| look.order(&wanted, order)).collect();
        orders.sort_by_key(|order| std::cmp::Reverse(order.number));
        Some(RouterDetail { router: look.router(key, child, router), led, orders })
    });
    found.await?.map(Json).ok_or_else(|| Problem::unknown_router(&id))
}
