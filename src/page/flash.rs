//! What somebody did is said once, on the page that the browser goes on to then: not on a reload, and to nobody whom they send the address.
//!
//! It stands in a cookie of that page, which is set with the redirect. The first look turns it into one that was seen: with that, whatever a
//! script fetches to keep the page as it is says the same for a while, and whoever looks anew is told nothing.

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse as _, Redirect, Response},
};

use crate::{context::Page, session::cookie_name, visit::Visit};

/// How long it may be said, in seconds.
const LASTS_S: u32 = 60;

const SEEN: &str = ".seen";

/// Of what something is told. Cookies of a path are sent with all paths below it, so each has a name of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    Release,
    Child,
}

impl About {
    fn name(self, headers: &HeaderMap) -> String {
        let of = match self {
            Self::Release => "done",
            Self::Child => "child-done",
        };
        format!("{}-{of}", cookie_name(headers))
    }

    fn cookie(self, page: &Page, headers: &HeaderMap, path: &str, value: &str) -> Option<HeaderValue> {
        let name = self.name(headers);
        let lasts = if value.is_empty() { 0 } else { LASTS_S };
        let secure = if page.settings.secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path={path}; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(text).ok()
    }

    fn sent(self, headers: &HeaderMap) -> Option<&str> {
        let name = self.name(headers);
        let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Goes on to the page at this path, which says what was done.
    pub fn go_on(self, page: &Page, headers: &HeaderMap, path: &str, done: &str) -> Response {
        let mut response = Redirect::to(path).into_response();
        if let Some(cookie) = self.cookie(page, headers, path, done) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }

    /// What is to be said on this page, by its name, and the cookie that goes with it.
    pub fn heard<'h>(
        self,
        page: &Page,
        visit: &Visit,
        headers: &'h HeaderMap,
        path: &str,
    ) -> FlashMessage<'h> {
        // Whoever has yet to get the cookie of a session did nothing in it.
        let sent = self.sent(headers).filter(|_| !visit.is_new);
        let Some(sent) = sent else { return FlashMessage::default() };
        let seen = sent.strip_suffix(SEEN);
        if visit.wants_middle {
            return FlashMessage { done: Some(seen.unwrap_or(sent)), cookie: None };
        }
        let next = if seen.is_some() { String::new() } else { format!("{sent}{SEEN}") };
        let cookie = self.cookie(page, headers, path, &next);
        FlashMessage { done: seen.is_none().then_some(sent), cookie }
    }
}

#[derive(Debug, Default)]
pub struct FlashMessage<'h> {
    pub done: Option<&'h str>,
    cookie: Option<HeaderValue>,
}

impl FlashMessage<'_> {
    /// Adds to the page that says it that it was said.
    pub fn with(self, mut response: Response) -> Response {
        if let Some(cookie) = self.cookie {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }
}
