//! What is shown where a page can't be.

use axum::{
    body::to_bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use crate::{layout, text, visit::Visit};
use protocol::api::{Diagnostic, Problem};

/// Largest refusal that is read, in bytes.
const MAX_REFUSAL: usize = 4 * 1024;

/// Why a page can't be shown, or an action was not done.
#[derive(Debug, Clone)]
pub struct Fault {
    pub status: StatusCode,
    pub title: String,
    /// For people, in a sentence.
    pub detail: String,
    /// The faults of a strategy.
    pub diagnostics: Vec<Diagnostic>,
}

impl Fault {
    fn new(status: StatusCode, detail: &str) -> Self {
        Self { status, title: reason(status), detail: detail.to_owned(), diagnostics: Vec::new() }
    }

    /// As the API answered.
    pub fn answered(status: StatusCode, problem: Option<Problem>) -> Self {
        match problem {
            Some(Problem { title, detail, diagnostics, .. }) => Self { status, title, detail, diagnostics },
            None => Self::new(status, ""),
        }
    }

    pub fn bad_request(detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text::INTERNAL)
    }

    /// A form that is not one of this session.
    pub fn unproven() -> Self {
        Self::new(StatusCode::FORBIDDEN, text::UNPROVEN)
    }

    /// The page that says so.
    pub fn page(&self, visit: &Visit) -> Response {
        self.page_with(visit, &html! {})
    }

    /// The same with something beside.
    pub fn page_with(&self, visit: &Visit, beside: &Markup) -> Response {
        let middle = html! {
            h1 { (self.title) }
            p.fault role="alert" { (model::text::lines(&self.detail)) }
            (beside)
            p { a href=(crate::places::releases()) { (text::TO_RELEASES) } }
        };
        (self.status, layout::page(visit, &layout::Head::plain(&self.title), &middle)).into_response()
    }
}

fn reason(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("Error").to_owned()
}

/// An action came without a session: nothing was done.
pub fn session_over(asked: &str) -> Response {
    (StatusCode::UNAUTHORIZED, layout::session_over(asked, &html! {})).into_response()
}

/// What refuses a call before any page is made says so in bare text: people get a page that says the same.
pub async fn dressed(response: Response, visit: Option<&Visit>) -> Response {
    let is_text = |headers: &HeaderMap| {
        let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        kind.is_none_or(|kind| kind.starts_with(b"text/plain"))
    };
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() || !is_text(response.headers()) {
        return response;
    }
    let said = to_bytes(response.into_body(), MAX_REFUSAL).await.unwrap_or_default();
    let fault = Fault::new(status, &String::from_utf8_lossy(&said));
    match visit {
        Some(visit) => fault.page(visit),
        None => (
            status,
            layout::outside(&fault.title, &html! { h1 { (fault.title) } p role="alert" { (fault.detail) } }),
        )
            .into_response(),
    }
}
