//! For which site's page a browser sends a form.

use axum::http::{HeaderMap, header};

/// Whether another site's page sends it. Browsers say so in `Sec-Fetch-Site`; over plain HTTP some say `Origin` alone. One that says neither
/// is no browser, and has no cookies that others could use.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return !matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let named = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    named.is_none_or(|(_, named)| !named.eq_ignore_ascii_case(host))
}
