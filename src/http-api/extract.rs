//! What handlers take from a request; what can't be read is refused as a problem.

use axum::{
    body::Bytes,
    extract::{
        FromRequest, FromRequestParts, MatchedPath, RawPathParams, Request, rejection::BytesRejection,
    },
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::de::{DeserializeOwned, IntoDeserializer as _, value::SeqDeserializer};

use super::{auth::CallingOperator, problem::Problem, scope::Scope};
use engine::{By, UNNAMED, audit::Actor};
use protocol::api::{Note, OrderRequest, RetireRequest};

/// Largest body of an operator's action, in bytes.
pub const MAX_ACTION_BODY_BYTES: usize = 16 * 1024;

/// Longest note, in characters.
pub const MAX_NOTE_CHARS: usize = 1_000;

/// Longest name of an operator, in characters.
pub const MAX_OPERATOR_CHARS: usize = 64;

/// The query of a request. Unknown parameters are refused where `T` does.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|rejection| Problem::bad_request(rejection.body_text()))
    }
}

/// The named parts of a path.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if let Some(named) = in_the_manager(parts, state).await? {
            return Ok(Self(named));
        }
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Self(path)),
            Err(rejection) => Err(Problem::bad_request(rejection.body_text())),
        }
    }
}

/// What stands before the id of a release in the paths of calls.
const RELEASES: &str = "/api/v1/releases/{id}";

/// The parts of a path in which a tenant names a release, with the id that this has in the manager; `None`: they stay as they are.
async fn in_the_manager<T: DeserializeOwned, S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
) -> Result<Option<T>, Problem> {
    let Some(caller) = parts.extensions.get::<CallingOperator>() else { return Ok(None) };
    let scope = Scope::of(caller);
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    if scope.tenant().is_none() || !route.starts_with(RELEASES) {
        return Ok(None);
    }
    let unread = |why: String| Problem::bad_request(why);
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|rejection| unread(rejection.body_text()))?;
    let named = params.iter().map(|(name, value)| match name {
        "id" => scope.release(value),
        _ => value.to_owned(),
    });
    let mut named: Vec<String> = named.collect();
    let read: Result<T, serde::de::value::Error> = match (named.pop(), named.is_empty()) {
        (Some(only), true) => T::deserialize(only.into_deserializer()),
        (last, _) => {
            named.extend(last);
            T::deserialize(SeqDeserializer::new(named.into_iter()))
        }
    };
    read.map(Some).map_err(|error| unread(error.to_string()))
}

/// The body of a request, within the route's limit.
#[derive(Debug)]
pub struct Body(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Bytes::from_request(request, state).await.map(Self).map_err(|rejection| unread(&rejection))
    }
}

fn unread(rejection: &BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than this call accepts")
        }
        status => Problem::plain(status, rejection.body_text()),
    }
}

/// An optional JSON body.
#[derive(Debug)]
pub struct OptionalJson<T>(pub Option<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).cloned();
        let Body(body) = Body::from_request(request, state).await?;
        // Null is what some clients write for nothing.
        if body.is_empty() || body.trim_ascii() == b"null" {
            return Ok(Self(None));
        }
        let is_json = kind.is_none_or(|kind| essence(kind.as_bytes()) == b"application/json");
        if !is_json {
            let detail = "the body must be JSON: send it with Content-Type: application/json";
            return Err(Problem::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        // A struct could be read from an array too, which nobody means.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(Problem::bad_request("the body must be a JSON object"));
        }
        match serde_json::from_slice(&body) {
            Ok(value) => Ok(Self(Some(value))),
            Err(error) => Err(Problem::bad_request(format!("the body can't be read: {error}"))),
        }
    }
}

/// A media type without its parameters, in lower case.
pub fn essence(content_type: &[u8]) -> Vec<u8> {
    content_type.split(|b| *b == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase()
}

/// The media type of a request's body; `None` where it says none.
pub fn media_type(headers: &HeaderMap) -> Option<Vec<u8>> {
    headers.get(header::CONTENT_TYPE).map(|value| essence(value.as_bytes()))
}

/// Who acts and why, from the token and an optional [`Note`] as the body.
#[derive(Debug)]
pub struct Acting(pub By);

impl<S: Send + Sync> FromRequest<S> for Acting {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let operator = request.extensions().get::<CallingOperator>().cloned();
        let OptionalJson(note) = OptionalJson::<Note>::from_request(request, state).await?;
        acting(operator.as_ref(), note.unwrap_or_default()).map(Self)
    }
}

/// Who acts and why, with what is asked for beside: from the token and an optional body.
#[derive(Debug)]
pub struct ActingWith<T>(pub By, pub T);

/// A body that says who acts and why.
pub trait SaysWho {
    /// Takes that out of it.
    fn note(&mut self) -> Note;
}

impl<T: DeserializeOwned + Default + SaysWho, S: Send + Sync> FromRequest<S> for ActingWith<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let operator = request.extensions().get::<CallingOperator>().cloned();
        let OptionalJson(body) = OptionalJson::<T>::from_request(request, state).await?;
        let mut body = body.unwrap_or_default();
        let note = body.note();
        acting(operator.as_ref(), note).map(|by| Self(by, body))
    }
}

impl SaysWho for OrderRequest {
    fn note(&mut self) -> Note {
        Note { by: self.by.take(), note: self.note.take() }
    }
}

impl SaysWho for RetireRequest {
    fn note(&mut self) -> Note {
        Note { by: self.by.take(), note: self.note.take() }
    }
}

/// Who acts: the token's name if there is one, else who the note says.
pub fn acting(operator: Option<&CallingOperator>, note: Note) -> Result<By, Problem> {
    let Note { by, note } = note;
    if let Some(by) = &by {
        let fits =
            (1..=MAX_OPERATOR_CHARS).contains(&by.chars().count()) && !by.chars().any(char::is_control);
        if !fits {
            let detail =
                format!("`by` has 1 to {MAX_OPERATOR_CHARS} characters, none of them a control character");
            return Err(Problem::bad_request(detail));
        }
    }
    if note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE_CHARS || note.contains('\0')) {
        let detail = format!("`note` has at most {MAX_NOTE_CHARS} characters and no NUL");
        return Err(Problem::bad_request(detail));
    }
    let name = operator.and_then(|operator| operator.name.clone()).or(by);
    let name = name.unwrap_or_else(|| UNNAMED.to_owned());
    // In the trail everybody's names stand side by side.
    let tenant = operator.and_then(|operator| operator.grant.tenant.as_ref());
    let actor = Actor::Operator(tenant.map_or_else(|| name.clone(), |tenant| format!("{tenant}/{name}")));
    Ok(By { actor, note: note.filter(|note| !note.is_empty()) })
}
