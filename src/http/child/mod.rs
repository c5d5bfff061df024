//! The calls of children. Five of them are fixed: agents that can't be changed depend on every path, status and field.
//! The sixth, `/answers`, only managers make that were asked something.
//!
//! What most traffic consists of (a poll with nothing new, a question whether a stage may end, a repeated
//! download) is answered from the view, without the engine and the store. Errors are a status and one line of text.

mod answers;
mod body;
mod end_stage;
mod functions;
mod poll;
mod release;
mod result;
mod survey;
mod wait;

use axum::{
    body::Bytes,
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use utoipa_axum::{router::OpenApiRouter, routes};
pub use wait::{MAX_WAIT, MAX_WAITERS};

use super::{
    Context,
    auth::Stranger,
    problem::{self, RETRY_AFTER_S},
};
use engine::{EngineError, view::ChildEntry};
use heart::release::command::Refusal;
use model::text;
use wire::WireError;

/// Agents that a child may say are below it, unless configured otherwise: more belong under several managers.
pub const MAX_AGENTS: u32 = 100_000;

/// The routes of children.
pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(poll::handle))
        .routes(routes!(release::handle))
        .routes(routes!(functions::handle))
        .routes(routes!(result::handle))
        .routes(routes!(end_stage::handle))
        .routes(routes!(answers::handle))
}

/// Whether errors on a path are one line of text.
pub fn is_child_path(path: &str) -> bool {
    matches!(path, "/poll" | "/release" | "/result" | "/end_stage" | "/answers")
        || path.starts_with("/release/functions/")
}

/// The answer to a method that a path does not know.
pub fn wrong_method(method: &Method) -> Response {
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not a method of this path"))
        .into_response()
}

/// The answer to a call of a child that is refused before anybody looks at what it wants.
pub fn refusal(status: StatusCode, text: String) -> Response {
    Refused::new(status, text).into_response()
}

/// A refusal to a child: a status and one line of text.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    text: String,
}

impl Refused {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    fn unavailable(ctx: &Context) -> Self {
        let why = "the manager is not serving at the moment; try again";
        let why = if ctx.view().is_store_full() { EngineError::Full.to_string() } else { why.to_owned() };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Self {
        Self::bad(error.to_string())
    }
}

impl From<Stranger> for Refused {
    fn from(_: Stranger) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "this child's own token is needed: Authorization: Bearer TOKEN")
    }
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        Self::new(problem::status(&error), error.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut line = text::one_line(&self.text).into_owned();
        line.push('\n');
        let mut response = (self.status, line).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        } else if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Refuses bodies that say they are something else than JSON. Those that say nothing are taken at their word.
fn expect_json(headers: &HeaderMap) -> Result<(), Refused> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.as_bytes();
    if kind.starts_with(b"application/json") {
        return Ok(());
    }
    let essence = kind.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json")
        || essence.eq_ignore_ascii_case(b"text/json")
        || essence.to_ascii_lowercase().ends_with(b"+json")
    {
        return Ok(());
    }
    Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"))
}

/// The headers by which a caller is known; empty where nobody is asked for a token, because copying all that a request
/// brings would cost more than the rest of many an answer.
#[derive(Debug)]
struct Credentials(HeaderMap);

impl FromRequestParts<Context> for Credentials {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, ctx: &Context) -> Result<Self, Refused> {
        let is_open = ctx.settings.auth.children.is_open();
        Ok(Self(if is_open { HeaderMap::new() } else { parts.headers.clone() }))
    }
}

/// The same of a call whose body is JSON; one that says that it is something else is refused.
#[derive(Debug)]
struct JsonCall(HeaderMap);

impl FromRequestParts<Context> for JsonCall {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, ctx: &Context) -> Result<Self, Refused> {
        expect_json(&parts.headers)?;
        let Credentials(headers) = Credentials::from_request_parts(parts, ctx).await?;
        Ok(Self(headers))
    }
}

/// Whether the caller may speak for `child`; everybody may where no tokens are configured.
fn check_token(ctx: &Context, headers: &HeaderMap, child: &str) -> Result<(), Refused> {
    let tokens = &ctx.settings.auth.children;
    if tokens.is_open() {
        return Ok(());
    }
    Ok(tokens.may_speak_for(child, headers)?)
}

/// Notes the call of a child, and tells whether it may be answered: to be asked after what the answer was read from.
fn heard_now(ctx: &Context, child: &ChildEntry) -> bool {
    let now = ctx.engine.clock().look();
    child.touch(now.served_ms);
    now.is_serving
}

/// A small JSON answer, ended by a line feed as deployed agents know it.
fn json(body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Notes for operators who calls without being known.
fn note_unknown(ctx: &Context, call: &'static str, error: &EngineError) {
    if let EngineError::Refused(Refusal::UnknownChild(id)) = error {
        ctx.view().unknown_callers.note(id, call, ctx.engine.clock().now().wall_ms);
    }
}
