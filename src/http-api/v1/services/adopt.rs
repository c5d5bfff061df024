//! `POST /api/v1/routers/{id}/adopt`.

use axum::{Json, extract::State};

use crate::{
    Context,
    extract::{ActingWith, Path, Query},
    problem::Problem,
    v1::routers::orders::{OrderTarget, Waiting, order},
};
use model::traffic::OrderWhat;
use protocol::api::{OrderRequest, RouterOrder};

/// Has a router's agent read what the router does for a service today: the answer has the lines to be added to its
/// configuration, so that the service is led from then on. Nothing is changed.
#[utoipa::path(post, path = "/api/v1/routers/{id}/adopt", operation_id = "adopt_service", tag = "traffic",
    params(("id" = String, Path, description = "The id of the child that leads the router."), Waiting),
    request_body(content = Option<OrderRequest>),
    responses((status = 200, body = RouterOrder, description = "It is handed to the router's agent until that answers, for ten minutes.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(router): Path<String>,
    Query(waiting): Query<Waiting>,
    ActingWith(by, request): ActingWith<OrderRequest>,
) -> Result<Json<RouterOrder>, Problem> {
    let wait = waiting.read(&ctx)?;
    let asked = OrderTarget { router, what: OrderWhat::Adopt, service: request.service, config: None };
    order(&ctx, asked, by, wait).await.map(Json)
}
