//! `POST /api/v1/services/{name}/retire`.

use axum::{Json, extract::State};

use crate::{
    Context,
    context::PATIENCE,
    extract::{ActingWith, Path},
    problem::Problem,
    v1::routers::orders::{OrderTarget, order},
};
use model::traffic::OrderWhat;
use protocol::api::{RetireRequest, RouterOrder};
use std::time::Duration;

/// Most routers that are asked at once; more are named one by one.
const MAX_ROUTERS: usize = 1_000;

/// Has a service drained at its routers, and what is ours of it removed there.
#[utoipa::path(post, path = "/api/v1/services/{name}/retire", operation_id = "retire_service", tag = "traffic",
    params(("name" = String, Path, description = "The name of the service.")),
    request_body(content = Option<RetireRequest>),
    responses(
        (status = 200, body = Vec<RouterOrder>, description = "An order to each router; each is handed out for ten minutes."),
        (status = 409, description = "A release of it is in hand.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Path(name): Path<String>,
    ActingWith(by, request): ActingWith<RetireRequest>,
) -> Result<Json<Vec<RouterOrder>>, Problem> {
    let (wanted, only) = (name.clone(), request.router.clone());
    let found = ctx.engine.read_apart(PATIENCE, move |state| {
        let of = state.traffic.of_service(&wanted);
        let known = of
            .filter_map(|(key, _, service)| Some((state.children.get(key)?.id.as_str().to_owned(), service)));
        let known = known.filter(|(id, _)| only.as_deref().is_none_or(|only| only == id));
        known.map(|(id, service)| (id, service.is_standing)).take(MAX_ROUTERS + 1).collect::<Vec<_>>()
    });
    let found = found.await?;
    if found.is_empty() {
        return Err(Problem::unknown_service(&name));
    }
    if found.len() > MAX_ROUTERS {
        let detail = format!("more than {MAX_ROUTERS} routers lead {name}: name one at a time (`router`)");
        return Err(Problem::bad_request(detail));
    }
    if let Some((router, _)) = found.iter().find(|(_, is_standing)| !is_standing) {
        let detail = format!("a release of {name} is in hand at {router}: end it or take it back first");
        return Err(Problem::new(axum::http::StatusCode::CONFLICT, "in-release", detail));
    }
    let mut orders = Vec::with_capacity(found.len());
    for (router, _) in found {
        let asked =
            OrderTarget { router, what: OrderWhat::Retire, service: Some(name.clone()), config: None };
        orders.push(order(&ctx, asked, by.clone(), Duration::ZERO).await?);
    }
    Ok(Json(orders))
}
