//! `GET /healthz` and `GET /readyz`, for whoever starts, restarts and balances managers.

use axum::{extract::State, http::StatusCode};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Context, problem::Problem};

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", operation_id = "healthz", tag = "watching",
    responses((status = 200, description = "It does.", content_type = "text/plain", body = String)))]
async fn healthz() -> &'static str {
    "alive\n"
}

/// Whether it serves: its lease is fresh, its store answers, and it is not about to stop.
#[utoipa::path(get, path = "/readyz", operation_id = "readyz", tag = "watching",
    responses(
        (status = 200, description = "It does.", content_type = "text/plain", body = String),
        (status = 503, description = "Not at the moment.", content_type = "application/problem+json",
            body = protocol::api::Problem),
    ))]
async fn readyz(State(ctx): State<Context>) -> Result<String, Problem> {
    let unready = |why| Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", why));
    if ctx.view().is_draining() {
        return unready("the manager is stopping");
    }
    if ctx.view().is_store_full() {
        return Err(Problem::store_full());
    }
    if !ctx.is_serving() {
        return unready("the lease on the store could not be renewed in time");
    }
    ctx.engine.reader().ping().await?;
    // It works without its parent; whoever looks should know all the same.
    let link = ctx.view().lineage.link.look(ctx.served_ms());
    let parent = match link.filter(|link| !link.is_up) {
        Some(link) => {
            let results = if link.unsent == 1 {
                "1 result waits".to_owned()
            } else {
                format!("{} results wait", link.unsent)
            };
            format!("the manager above does not answer; {results} for it\n")
        }
        None => String::new(),
    };
    Ok(format!("ready\n{parent}"))
}
