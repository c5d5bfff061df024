//! `GET /api/v1/routers/{id}/orders/{number}`.

use axum::{Json, extract::State};

use super::orders::{Waiting, outcome};
use crate::{
    Context,
    extract::{Path, Query},
    problem::Problem,
};
use protocol::api::RouterOrder;

/// Shows what came of an order.
#[utoipa::path(get, path = "/api/v1/routers/{id}/orders/{number}", operation_id = "show_router_order", tag = "traffic",
    params(("id" = String, Path, description = "The id of the child that leads the router."),
        ("number" = u64, Path, description = "As the order was answered."), Waiting),
    responses((status = 200, body = RouterOrder)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path((id, number)): Path<(String, u64)>,
    Query(waiting): Query<Waiting>,
) -> Result<Json<RouterOrder>, Problem> {
    outcome(&ctx, &id, number, waiting.read(&ctx)?).await.map(Json)
}
