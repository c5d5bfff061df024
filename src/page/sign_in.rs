//! Signing in and out, and the choice of colours.

use axum::{
    Form, Router,
    extract::{DefaultBodyLimit, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use maud::html;
use serde::Deserialize;

use crate::{
    ROOT,
    actions::is_foreign,
    context::{Page, now_s},
    fault::Fault,
    layout, places,
    session::{SCHEME_COOKIE, unset_cookie},
    text,
    visit::{Scheme, Visit},
};

/// Largest form, in bytes.
const MAX_FORM: usize = 16 * 1024;

pub fn router() -> Router<Page> {
    Router::new()
        .route("/ui/sign-in", get(form).post(sign_in))
        .route("/ui/sign-out", post(sign_out))
        .route("/ui/colours", post(colours))
        .layer(DefaultBodyLimit::max(MAX_FORM))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    next: Option<String>,
    out: Option<String>,
}

async fn form(Query(asked): Query<Asked>) -> Response {
    let said = asked.out.is_some().then_some(text::SIGNED_OUT);
    sheet(asked.next.as_deref(), said, None).into_response()
}

fn sheet(next: Option<&str>, said: Option<&str>, fault: Option<&str>) -> maud::Markup {
    layout::outside(
        text::SIGN_IN,
        &html! {
            h1 { (text::PRODUCT) }
            @if let Some(said) = said { p role="status" { (said) } }
            form.sign-in method="post" action={ (ROOT) "/sign-in" } {
                input type="hidden" name="next" value=(places::onward(next));
                // For whoever keeps secrets: which of them this is.
                input.unseen type="text" name="user" value="operator" autocomplete="username" tabindex="-1" aria-hidden="true" readonly;
                label for="token" { (text::TOKEN) }
                input #token type="password" name="token" required autofocus autocomplete="current-password" maxlength="4096"
                    aria-describedby="token-hint" aria-invalid=[fault.map(|_| "true")];
                p #token-hint .hint { (text::TOKEN_HINT) }
                @if let Some(fault) = fault { p.fault role="alert" { (fault) } }
                button type="submit" { (text::SIGN_IN) }
            }
        },
    )
}

#[derive(Deserialize)]
struct Entered {
    token: String,
    next: Option<String>,
}

async fn sign_in(State(page): State<Page>, headers: HeaderMap, Form(entered): Form<Entered>) -> Response {
    let next = entered.next.as_deref();
    if is_foreign(&headers) {
        return Fault::bad_request(text::UNPROVEN).status.into_response();
    }
    let auth = page.operators.auth();
    let Some(session) = page.sessions.open(auth, &entered.token, rand::random(), now_s()) else {
        return (StatusCode::UNAUTHORIZED, sheet(next, None, Some(text::TOKEN_UNKNOWN))).into_response();
    };
    let visit = Visit {
        session,
        is_new: true,
        asked: places::onward(next),
        scheme: Scheme::System,
        has_operators: true,
        wants_middle: false,
    };
    with_cookie(Redirect::to(&visit.asked).into_response(), visit.set_cookie(&page, &headers))
}

#[derive(Deserialize)]
struct Proven {
    proof: String,
}

async fn sign_out(
    State(page): State<Page>,
    visit: Visit,
    headers: HeaderMap,
    Form(Proven { proof }): Form<Proven>,
) -> Response {
    if is_foreign(&headers) || !visit.session.is_proven_by(&proof) {
        return Fault::unproven().page(&visit);
    }
    page.sessions.end(&visit.session, now_s());
    let to = format!("{ROOT}/sign-in?out=1");
    with_cookie(Redirect::to(&to).into_response(), unset_cookie(&headers))
}

#[derive(Deserialize)]
struct Chosen {
    colours: String,
    next: Option<String>,
}

/// Changes nothing but how this browser shows pages.
async fn colours(Form(Chosen { colours, next }): Form<Chosen>) -> Response {
    let scheme = Scheme::named(&colours).unwrap_or_default();
    let kept = format!("{SCHEME_COOKIE}={}; Path=/ui; Max-Age=31536000; SameSite=Lax", scheme.name());
    with_cookie(
        Redirect::to(&places::onward(next.as_deref())).into_response(),
        HeaderValue::try_from(kept).ok(),
    )
}

fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
