//! Finds out who looks at a page: the session of the cookie, or one that begins now.

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Redirect, Response},
};

use crate::{
    ROOT,
    context::{Page, now_s},
    fault, layout,
    visit::{Scheme, Visit},
};

/// The cookie with the choice of colours. It says nothing of anybody.
pub const SCHEME_COOKIE: &str = "choirmaster-colours";

/// What a script sends that wants the middle of a page.
const MIDDLE: &str = "x-choirmaster-middle";

/// Finds out who looks, for the handlers, and gives a browser the cookie of a session that begins here.
pub async fn find(State(page): State<Page>, mut request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let visit = of(&page, &headers, request.uri());
    if let Some(visit) = &visit {
        request.extensions_mut().insert(visit.clone());
    }
    // Scripts read the status, and what they read of the API is as the API has it.
    let is_script = headers.contains_key(MIDDLE) || request.uri().path().starts_with("/ui/api/");
    let mut response = next.run(request).await;
    if !is_script {
        response = fault::dressed(response, visit.as_ref()).await;
    }
    let cookie = visit.filter(|visit| visit.is_new).and_then(|visit| visit.set_cookie(&page, &headers));
    // Who signed in or out just now has another one already.
    if let Some(cookie) = cookie.filter(|_| !response.headers().contains_key(header::SET_COOKIE)) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

fn of(page: &Page, headers: &HeaderMap, uri: &Uri) -> Option<Visit> {
    let auth = page.operators.auth();
    let name = cookie_name(headers);
    let known = cookie(headers, &name).and_then(|kept| page.sessions.find(auth, kept, now_s()));
    let is_new = known.is_none();
    let session = known.or_else(|| page.sessions.open_unnamed(auth, rand::random(), now_s()))?;
    let asked = uri.path_and_query().map_or(ROOT, |asked| asked.as_str()).to_owned();
    let scheme = cookie(headers, SCHEME_COOKIE).and_then(Scheme::named).unwrap_or_default();
    let (has_operators, wants_middle) = (!auth.operators.is_empty(), headers.contains_key(MIDDLE));
    Some(Visit { session, is_new, asked, scheme, has_operators, wants_middle })
}

impl FromRequestParts<Page> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &Page) -> Result<Self, Response> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| sent_to_sign_in(parts))
    }
}

/// A cookie counts for all ports of a name, and several managers may stand behind one name.
pub fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
    format!("choirmaster{port}")
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

impl Visit {
    /// What gives the browser this session's cookie.
    pub fn set_cookie(&self, page: &Page, headers: &HeaderMap) -> Option<HeaderValue> {
        let seconds = self.session.ends_s.saturating_sub(now_s());
        let secure = if page.settings.secure { "; Secure" } else { "" };
        let (name, kept) = (cookie_name(headers), &self.session.cookie);
        let text = format!("{name}={kept}; Path=/ui; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(text).ok()
    }
}

/// Takes the session's cookie away from a browser.
pub fn unset_cookie(headers: &HeaderMap) -> Option<HeaderValue> {
    let name = cookie_name(headers);
    HeaderValue::try_from(format!("{name}=; Path=/ui; Max-Age=0; HttpOnly; SameSite=Strict")).ok()
}

/// What whoever has no session is answered.
fn sent_to_sign_in(parts: &Parts) -> Response {
    let path = parts.uri.path();
    if path.starts_with("/ui/api/") || parts.headers.contains_key(MIDDLE) {
        return (StatusCode::UNAUTHORIZED, "the session is over: sign in again").into_response();
    }
    let asked = parts.uri.path_and_query().map_or(ROOT, |asked| asked.as_str());
    if parts.method != Method::GET {
        return fault::session_over(asked);
    }
    // Cookies of a session don't come with a call that another site's page began, such as a link in a chat. Whoever comes that way is
    // sent on by a page of this site, and the browser sends the cookie with that.
    let site = parts.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site == Some(b"cross-site") {
        return layout::onward(asked).into_response();
    }
    let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("next", asked).finish();
    Redirect::to(&format!("{ROOT}/sign-in?{query}")).into_response()
}
