//! Whether a call of a developer or an operator is let pass, and what a tenant is answered.

use axum::{
    RequestExt as _,
    body::Body,
    extract::{MatchedPath, RawPathParams, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use hyper::body::Body as _;

use super::{
    Context,
    auth::{CallingOperator, Settings, bearer},
    context::PATIENCE,
    host::is_of_another_site,
    problem::Problem,
    rights,
    scope::{Scope, Unmarker},
};
use model::TenantName;

/// What media types of maps begin with.
const MAP_MEDIA: &[u8] = b"application/vnd.choirmaster.map";

/// Left with a call that comes from within this process, of somebody who was let in before. No call from outside has it.
#[derive(Debug, Clone)]
pub struct Admitted(pub CallingOperator);

/// Lets operators pass, and leaves [`CallingOperator`] for the handlers.
pub async fn admit_operators(State(ctx): State<Context>, mut request: Request, next: Next) -> Response {
    let operator = match admit(&ctx.settings.auth, &request) {
        Ok(operator) => operator,
        Err(problem) => return problem.into_response(),
    };
    let Some(tenant) = operator.grant.tenant.clone() else {
        request.extensions_mut().insert(operator);
        return next.run(request).await;
    };
    if ctx.view().tenants.get(&tenant).is_none() {
        let detail = format!("the token is bound to the tenant {tenant}, which is not there");
        return Problem::new(StatusCode::FORBIDDEN, "unknown-tenant", detail).into_response();
    }
    let answer = match admit_to_child(&ctx, &Scope::of(&operator), &mut request).await {
        Ok(()) => {
            request.extensions_mut().insert(operator);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    unmarked(answer, &tenant).await
}

fn admit(settings: &Settings, request: &Request) -> Result<CallingOperator, Problem> {
    let path = request.uri().path();
    let open = matches!(path, "/healthz" | "/readyz") || (path == "/metrics" && settings.metrics_open);
    if open {
        return Ok(CallingOperator::default());
    }
    // A page that an operator looks at could otherwise submit releases to a manager on the operator's own machine.
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    if *request.method() != Method::GET && is_of_another_site(request.headers(), host) {
        let detail = "a page of another site may not act here";
        return Err(Problem::plain(StatusCode::FORBIDDEN, detail));
    }
    let operator = match request.extensions().get::<Admitted>() {
        Some(Admitted(operator)) => operator.clone(),
        None => calling(settings, request.headers())?,
    };
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    rights::check(&operator, request.method(), route)?;
    Ok(operator)
}

/// Who calls, by the token.
fn calling(settings: &Settings, headers: &HeaderMap) -> Result<CallingOperator, Problem> {
    let sent = headers.contains_key(header::AUTHORIZATION);
    // A token that is sent is looked at, so that its name gets into the audit trail.
    let is_asked = settings.operator_required || (sent && !settings.operators.is_empty());
    if !is_asked {
        return Ok(CallingOperator::default());
    }
    match bearer(headers).and_then(|token| settings.operator(&token)) {
        Some(known) => Ok(CallingOperator { name: Some(known.name.clone()), grant: known.grant.clone() }),
        None if sent => Err(Problem::plain(StatusCode::UNAUTHORIZED, "the token is not known here")),
        None => Err(Problem::plain(
            StatusCode::UNAUTHORIZED,
            "an operator's token is needed: Authorization: Bearer TOKEN",
        )),
    }
}

/// A child that the path names has to be the caller's. Another's is as unknown as one that is not there, whatever is asked of it.
async fn admit_to_child(ctx: &Context, scope: &Scope, request: &mut Request) -> Result<(), Problem> {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // A router is named by the child that leads it.
    let of_children = ["/api/v1/children/", "/api/v1/routers/"];
    let is_childs = route.is_some_and(|route| of_children.iter().any(|start| route.starts_with(start)));
    let named = match request.extract_parts::<RawPathParams>().await {
        Ok(params) => params
            .iter()
            .find(|(name, _)| *name == "child" || (is_childs && *name == "id"))
            .map(|(_, child)| child.to_owned()),
        // The handler says what is wrong with them.
        Err(_) => None,
    };
    let Some(id) = named else { return Ok(()) };
    see_child(ctx, scope, &id).await
}

/// Refuses a child that the caller doesn't see, in the words for one that is not there.
pub async fn see_child(ctx: &Context, scope: &Scope, id: &str) -> Result<(), Problem> {
    if scope.tenant().is_none() {
        return Ok(());
    }
    let (wanted, asking) = (id.to_owned(), scope.clone());
    let sees = move |state: &domain::release::state::Snapshot| {
        state.children.by_id(&wanted).is_some_and(|(_, child)| asking.sees_child(child))
    };
    if ctx.engine.read(PATIENCE, sees).await? { Ok(()) } else { Err(Problem::unknown_child(id)) }
}

/// An answer as the tenant reads it.
async fn unmarked(answer: Response, tenant: &TenantName) -> Response {
    let (mut parts, body) = answer.into_parts();
    for value in parts.headers.values_mut() {
        let text = Unmarker::whole(tenant, value.as_bytes());
        if let Ok(text) = HeaderValue::from_bytes(&text) {
            *value = text;
        }
    }
    // Columns of numbers have no names, and bytes of theirs that look like one are none.
    if parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(MAP_MEDIA)) {
        return Response::from_parts(parts, body);
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    let is_there = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    if let Some(bytes) = is_there {
        return match axum::body::to_bytes(body, bytes).await {
            Ok(text) => Response::from_parts(parts, Unmarker::whole(tenant, &text).into()),
            Err(error) => {
                tracing::error!(%error, "an answer could not be read");
                Problem::from(engine::EngineError::Failed).into_response()
            }
        };
    }
    let mut unmarker = Unmarker::new(tenant);
    let mut pieces = body.into_data_stream();
    let stream = async_stream::stream! {
        while let Some(piece) = pieces.next().await {
            yield piece.map(|piece| unmarker.push(&piece));
        }
        let rest = unmarker.end();
        if !rest.is_empty() {
            yield Ok(rest);
        }
    };
    Response::from_parts(parts, Body::from_stream(stream))
}
