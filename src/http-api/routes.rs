//! Every route, and what is answered where there is none.

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, StatusCode, Uri},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use tokio::time::Instant;
use tracing::Level;
use utoipa_axum::router::OpenApiRouter;

use super::{Context, child, events, guard, health, metrics, openapi, problem::Problem, v1};

/// The calls of developers and operators.
pub(super) fn operators() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .merge(v1::router())
        .merge(events::router())
        .merge(health::router())
        .merge(metrics::router())
        .merge(openapi::router())
}

/// Everything on one address.
pub fn router(ctx: Context) -> Router {
    let operators = guarded(&ctx, operators().into());
    finish(child::router().split_for_parts().0.merge(operators), ctx)
}

/// What developers and operators call, for an address without children.
pub fn operator_router(ctx: Context) -> Router {
    finish(guarded(&ctx, operators().into()), ctx)
}

/// What children call, for an address of their own.
pub fn child_router(ctx: Context) -> Router {
    finish(child::router().into(), ctx)
}

fn guarded(ctx: &Context, routes: Router<Context>) -> Router<Context> {
    routes
        .route_layer(from_fn_with_state(ctx.clone(), fresh))
        .route_layer(from_fn_with_state(ctx.clone(), guard::admit_operators))
}

/// Withholds what was read of the state if the lease is not fresh: another manager may know better. Who watches this
/// manager itself is always answered, and who asks how it stands looks after that by itself.
async fn fresh(State(ctx): State<Context>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_read = request.method().is_safe() && path.starts_with("/api/") && path != v1::status::PATH;
    let response = next.run(request).await;
    if is_read && !ctx.is_serving() {
        let why = "the lease on the store could not be renewed in time";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", why).into_response();
    }
    response
}

fn finish(routes: Router<Context>, ctx: Context) -> Router {
    let routes = routes.fallback(unknown).method_not_allowed_fallback(wrong_method).with_state(ctx);
    // Most calls are polls: nothing is laid around them unless somebody wants to read about them.
    if tracing::enabled!(Level::DEBUG) { routes.layer(from_fn(log)) } else { routes }
}

async fn unknown(method: Method, uri: Uri) -> Response {
    let path: String = uri.path().chars().take(MAX_SHOWN_PATH).collect();
    let detail = format!("there is no {method} {path}; /openapi.json lists what there is");
    Problem::plain(StatusCode::NOT_FOUND, detail).into_response()
}

/// Longest part of a path that an answer repeats, in characters.
const MAX_SHOWN_PATH: usize = 200;

/// The `Allow` header is added by the routes themselves.
async fn wrong_method(method: Method, uri: Uri) -> Response {
    if child::is_child_path(uri.path()) {
        return child::wrong_method(&method);
    }
    let detail = format!("{method} is not a method of this path; see the Allow header");
    Problem::plain(StatusCode::METHOD_NOT_ALLOWED, detail).into_response()
}

/// One line a request.
async fn log(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let took_us = began.elapsed().as_micros() as u64;
    tracing::debug!(%method, path, status = response.status().as_u16(), took_us, "answered");
    response
}
