//! Pages of lists.

use std::str::FromStr;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

use crate::{Context, guard::see_child, problem::Problem, scope::Scope};
use engine::{blocking, questions::path::MAX_PATH};

/// Items of a page, unless asked otherwise.
pub const DEFAULT_LIMIT: u32 = 100;

/// Most items of a page.
pub const MAX_LIMIT: u32 = store::MAX_PAGE;

/// The size of a page.
pub fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    match asked {
        None => Ok(DEFAULT_LIMIT),
        Some(limit @ 1..=MAX_LIMIT) => Ok(limit),
        Some(other) => Err(Problem::bad_request(format!("`limit` is 1 to {MAX_LIMIT}, not {other}"))),
    }
}

/// Answers with a page, or something else that may be long. It is made and written apart from the tasks that answer other calls.
pub async fn answer<T: Serialize>(make: impl FnOnce() -> T + Send + 'static) -> Result<Response, Problem> {
    let mut response = Response::new(blocking::write_json(make).await?.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Where a page starts, as the page before said.
pub fn after<T: FromStr>(asked: Option<&str>) -> Result<Option<T>, Problem> {
    let read = |text: &str| text.parse().map_err(|_| bad_after());
    asked.filter(|text| !text.is_empty()).map(read).transpose()
}

/// A plain array, with a link to the page behind it: `rel="next"`, RFC 8288. `query`: what else was asked.
pub fn linked<T: Serialize>(path: &str, items: &[T], query: &[(&str, &str)]) -> Response {
    let mut response = axum::Json(items).into_response();
    if query.iter().any(|(key, _)| *key == "after") {
        let query = query.iter().map(|(key, value)| format!("{key}={}", escaped(value)));
        let link = format!("<{path}?{}>; rel=\"next\"", query.collect::<Vec<_>>().join("&"));
        if let Ok(link) = HeaderValue::try_from(link) {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    response
}

/// As it may stand in a query.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

pub fn bad_after() -> Problem {
    Problem::bad_request("`after` must be what `next` of the page before said")
}

/// The managers that lead to one below, the first of which is a child of this one; none: it is about this one.
pub async fn path_below(ctx: &Context, scope: &Scope, asked: Option<&str>) -> Result<Vec<String>, Problem> {
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else { return Ok(Vec::new()) };
    let path: Vec<String> = asked.split('/').map(str::to_owned).collect();
    if path.len() > MAX_PATH || path.iter().any(String::is_empty) {
        return Err(Problem::bad_request(format!("`below` is one to {MAX_PATH} ids with a / between")));
    }
    if let Some(first) = path.first() {
        see_child(ctx, scope, first).await?;
        if ctx.view().children.get(first).is_none() {
            return Err(Problem::unknown_child(first));
        }
    }
    Ok(path)
}

/// A manager below did not say what was asked.
pub fn unheard(why: &str) -> Problem {
    let detail = format!("the manager below was asked, and {why}");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-heard", detail)
}
