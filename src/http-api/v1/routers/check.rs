//! `POST /api/v1/routers/{id}/check`.

use axum::{Json, extract::State, http::StatusCode};

use super::orders::{OrderTarget, Waiting, order};
use crate::{
    Context,
    extract::{ActingWith, Path, Query},
    problem::Problem,
    scope::Scope,
};
use model::traffic::OrderWhat;
use protocol::api::{OrderRequest, RouterOrder};

/// Has a router checked whether it takes its configuration, or another main configuration beside ours, and what is ours there that belongs to nothing that is wanted.
#[utoipa::path(post, path = "/api/v1/routers/{id}/check", operation_id = "check_router", tag = "traffic",
    params(("id" = String, Path, description = "The id of the child that leads it."), Waiting),
    request_body(content = Option<OrderRequest>),
    responses((status = 200, body = RouterOrder, description = "It is handed to the router's agent until that answers, for ten minutes.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(router): Path<String>,
    Query(waiting): Query<Waiting>,
    ActingWith(by, request): ActingWith<OrderRequest>,
) -> Result<Json<RouterOrder>, Problem> {
    let wait = waiting.read(&ctx)?;
    if request.config.is_some() && scope.tenant().is_some() {
        // What a router says of a file quotes it.
        let why = "files on a router's machine are read for operators of the whole manager, with a token that is bound to no tenant";
        return Err(Problem::new(StatusCode::FORBIDDEN, "whole-manager", why));
    }
    let asked = OrderTarget { router, what: OrderWhat::Check, service: None, config: request.config };
    order(&ctx, asked, by, wait).await.map(Json)
}
