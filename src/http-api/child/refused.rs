//! How a call of a child is refused: with a status and one line of text.

use axum::{
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{
    Context,
    auth::IdentityMismatch,
    problem::{self, RETRY_AFTER_S},
    quota::QuotaExceeded,
};
use engine::EngineError;
use model::text;
use protocol::WireError;

/// Whether errors on a path are one line of text.
pub fn is_child_path(path: &str) -> bool {
    matches!(
        path,
        "/poll" | "/release" | "/result" | "/end_stage" | "/answers" | "/join" | "/traffic" | "/placements"
    ) || path.starts_with("/release/functions/")
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
pub(super) struct Refused {
    status: StatusCode,
    text: String,
}

impl Refused {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub fn unavailable(ctx: &Context) -> Self {
        let why = "the manager is not serving at the moment; try again";
        let why = if ctx.view().is_store_full() { EngineError::Full.to_string() } else { why.to_owned() };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

impl From<QuotaExceeded> for Refused {
    fn from(why: QuotaExceeded) -> Self {
        let (status, detail) = (why.status(), why.to_string());
        match why {
            QuotaExceeded::Engine(error) => error.into(),
            // A child is told nothing of the store.
            QuotaExceeded::Store(_) => EngineError::Busy.into(),
            QuotaExceeded::UnknownTenant(_)
            | QuotaExceeded::Children { .. }
            | QuotaExceeded::Releases { .. }
            | QuotaExceeded::Bytes { .. } => Self::new(status, detail),
        }
    }
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Self {
        Self::bad(error.to_string())
    }
}

impl From<IdentityMismatch> for Refused {
    fn from(_: IdentityMismatch) -> Self {
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
