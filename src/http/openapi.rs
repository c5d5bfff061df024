//! `GET /openapi.json`: the description of every route, generated from the handlers themselves.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use utoipa::{
    OpenApi,
    openapi::{
        OpenApi as Document,
        path::Operation,
        response::ResponseBuilder,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Context, child, router::operators};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Choirmaster",
        description = "Releases functions, from the edge to the cloud. Errors are RFC 9457 problems; on the calls of \
            children, a status and one line of text."
    ),
    tags(
        (name = "releases", description = "Submit releases, look at them, act on them."),
        (name = "children", description = "Who polls here."),
        (name = "watching", description = "Audit trail, events, health, metrics."),
        (name = "child protocol", description = "The calls of children; all but /answers are fixed.")
    )
)]
struct Base;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(handle))
}

/// The whole document.
pub fn document() -> Document {
    let mut document = Base::openapi();
    for part in [operators().into_openapi(), child::router().into_openapi()] {
        document.merge(part);
    }
    let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("token", scheme);
    for (path, item) in &mut document.paths.paths {
        let is_childs = child::is_child_path(path);
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.head];
        for operation in operations.into_iter().flatten() {
            describe_errors(operation, is_childs && path != "/release");
        }
    }
    document
}

/// What every call may answer instead.
fn describe_errors(operation: &mut Operation, one_line: bool) {
    let text = if one_line {
        "Any other: a status and one line of text."
    } else {
        "Any other: a problem (RFC 9457), `application/problem+json`."
    };
    let response = ResponseBuilder::new().description(text).build();
    operation.responses.responses.entry("default".to_owned()).or_insert_with(|| response.into());
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "watching",
    responses((status = 200, description = "OpenAPI 3.1.", content_type = "application/json", body = Object)))]
async fn handle() -> Response {
    match document().to_json() {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the description of the API has no JSON form");
            super::problem::Problem::from(crate::engine::EngineError::Failed).into_response()
        }
    }
}
