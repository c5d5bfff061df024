//! What scripts read of the API, with the session of the page. Reads alone: actions go by the forms of pages, which prove where they
//! come from.

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
    routing::get,
};

use crate::{api::Api, context::Page, visit::Visit};

pub fn router() -> Router<Page> {
    Router::new().route("/ui/api/{*path}", get(pass))
}

/// `/ui/api/events` is `/events`, and `/ui/api/v1/…` is `/api/v1/…`.
async fn pass(State(page): State<Page>, visit: Visit, uri: Uri, headers: HeaderMap) -> Response {
    let rest = uri.path_and_query().and_then(|asked| asked.as_str().strip_prefix("/ui/api/"));
    let path = match rest {
        Some(rest) if rest.starts_with("v1/") => format!("/api/{rest}"),
        Some(rest) if rest == "events" || rest.starts_with("events?") => format!("/{rest}"),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let mut passed = HeaderMap::new();
    for name in [header::HeaderName::from_static("last-event-id"), header::ACCEPT, header::IF_NONE_MATCH] {
        if let Some(value) = headers.get(&name) {
            passed.insert(name, value.clone());
        }
    }
    let answer = Api::new(&page, &visit).send(Method::GET, &path, passed, Body::empty()).await;
    answer.unwrap_or_else(|fault| fault.status.into_response())
}
