//! `GET /openapi.json`: the description of every route, generated from the handlers themselves.
//!
//! What a call accepts is said as exactly as a schema can: `tests/schemathesis` sends what the schema allows, and what it
//! forbids, and expects the manager to agree.

mod bounds;
mod child;

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

use serde_json::{Map, Value, json};

use super::{Context, child::router as children, routes::operators};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Choirmaster",
        description = "Releases functions, from the edge to the cloud. Errors are RFC 9457 problems; on the calls of \
            children, a status and one line of text."
    ),
    tags(
        (name = "releases", description = "Submit releases, look at them, act on them."),
        (name = "progressive delivery", description = "Releases of services as A/B releases, and what they name."),
        (name = "canaries", description = "Canaries of registered releases."),
        (name = "children", description = "Who polls here."),
        (name = "tenants", description = "Who shares the manager, and how much of it each may take."),
        (name = "traffic", description = "Routers, services, and who gets what."),
        (name = "watching", description = "Audit trail, events, health, metrics."),
        (name = "child protocol", description = "The calls of children; all but /answers, /join, /traffic and /placements are fixed.")
    )
)]
struct Base;

/// The tag of what children call. One path may be a child's to get and a developer's to post to.
const CHILD_PROTOCOL: &str = "child protocol";

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(handle))
}

/// The whole document, with what the handlers' attributes can't say.
pub fn described() -> serde_json::Result<Value> {
    let mut document = serde_json::to_value(document())?;
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for item in paths.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        for operation in item.values_mut().filter_map(Value::as_object_mut) {
            bounds::write(operation);
            describe_bodies(operation);
            describe_responses(operation);
        }
    }
    Ok(document)
}

fn describe_bodies(operation: &mut Map<String, Value>) {
    let id = operation.get("operationId").and_then(Value::as_str).unwrap_or_default();
    let Some((body, answer)) = child::schemas(id) else { return };
    let media = "application/json";
    operation
        .insert("requestBody".to_owned(), json!({"required": true, "content": {media: {"schema": body}}}));
    let content =
        operation.get_mut("responses").and_then(|responses| responses.get_mut("200")?.get_mut("content"));
    if let Some(schema) = content.and_then(|content| content.get_mut(media)?.get_mut("schema")) {
        *schema = answer;
    }
}

/// Each response says what it means.
fn describe_responses(operation: &mut Map<String, Value>) {
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
    for response in responses.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        let text = response.entry("description").or_insert_with(|| "What was asked for.".into());
        if text.as_str().is_some_and(str::is_empty) {
            *text = "What was asked for.".into();
        }
    }
}

/// The document as the handlers' attributes make it.
fn document() -> Document {
    let mut document = Base::openapi();
    for part in [operators().into_openapi(), children().into_openapi()] {
        document.merge(part);
    }
    let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("token", scheme);
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.head];
        for operation in operations.into_iter().flatten() {
            let is_childs = operation.tags.iter().flatten().any(|tag| tag == CHILD_PROTOCOL);
            describe_errors(operation, is_childs);
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
    match described() {
        Ok(document) => ([(header::CONTENT_TYPE, "application/json")], document.to_string()).into_response(),
        Err(error) => {
            tracing::error!(%error, "the description of the API has no JSON form");
            super::problem::Problem::from(engine::EngineError::Failed).into_response()
        }
    }
}
