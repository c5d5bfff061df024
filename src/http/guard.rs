//! Whether a call of a developer or an operator is let pass.

use axum::{
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{
    Context,
    auth::{CallingOperator, Settings, bearer},
    host::is_of_another_site,
    problem::Problem,
};

/// Lets operators pass, and leaves [`CallingOperator`] for the handlers.
pub async fn admit_operators(State(ctx): State<Context>, mut request: Request, next: Next) -> Response {
    match admit(&ctx.settings.auth, &request) {
        Ok(operator) => {
            request.extensions_mut().insert(operator);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn admit(settings: &Settings, request: &Request) -> Result<CallingOperator, Problem> {
    let path = request.uri().path();
    let open = matches!(path, "/healthz" | "/readyz") || (path == "/metrics" && settings.metrics_open);
    if open {
        return Ok(CallingOperator { name: None });
    }
    // A page that an operator looks at could otherwise submit releases to a manager on the operator's own machine.
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    if *request.method() != Method::GET && is_of_another_site(request.headers(), host) {
        let detail = "a page of another site may not act here";
        return Err(Problem::plain(StatusCode::FORBIDDEN, detail));
    }
    let sent = request.headers().contains_key(header::AUTHORIZATION);
    // A token that is sent is looked at, so that its name gets into the audit trail.
    let is_asked = settings.operator_required || (sent && !settings.operators.is_empty());
    if !is_asked {
        return Ok(CallingOperator { name: None });
    }
    match bearer(request.headers()).and_then(|token| settings.operator(&token)) {
        Some(name) => Ok(CallingOperator { name: Some(name.to_owned()) }),
        None if sent => Err(Problem::plain(StatusCode::UNAUTHORIZED, "the token is not known here")),
        None => Err(Problem::plain(
            StatusCode::UNAUTHORIZED,
            "an operator's token is needed: Authorization: Bearer TOKEN",
        )),
    }
}
