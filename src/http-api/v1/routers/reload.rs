//! `POST /api/v1/routers/{id}/reload`.

use axum::{Json, extract::State};

use super::orders::{OrderTarget, Waiting, order};
use crate::{
    Context,
    extract::{ActingWith, Path, Query},
    problem::Problem,
};
use model::traffic::OrderWhat;
use protocol::api::{OrderRequest, RouterOrder};

/// Has a router load its configuration anew, after a check.
#[utoipa::path(post, path = "/api/v1/routers/{id}/reload", operation_id = "reload_router", tag = "traffic",
    params(("id" = String, Path, description = "The id of the child that leads it."), Waiting),
    request_body(content = Option<OrderRequest>),
    responses((status = 200, body = RouterOrder, description = "It is handed to the router's agent until that answers, for ten minutes.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(router): Path<String>,
    Query(waiting): Query<Waiting>,
    ActingWith(by, _): ActingWith<OrderRequest>,
) -> Result<Json<RouterOrder>, Problem> {
    let wait = waiting.read(&ctx)?;
    let asked = OrderTarget { router, what: OrderWhat::Reload, service: None, config: None };
    order(&ctx, asked, by, wait).await.map(Json)
}
