//! What every answer with a page says to the browser.

use std::io::Write as _;

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use flate2::{Compression, write::GzEncoder};

/// Nothing from elsewhere, no script or style within a page, no page around this one, and no text that becomes markup in a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types choirmaster";

const FIXED: [(header::HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Texts below this size are sent as they are.
const MIN_PACKED: usize = 1_024;

/// Adds what every page has, and packs it for who can unpack it.
pub async fn add(request: Request, next: Next) -> Response {
    let may_pack = takes_gzip(request.headers());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What a session sees is nobody else's, and old after a moment.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_page = kind.starts_with(b"text/html") && !headers.contains_key(header::CONTENT_ENCODING);
    if is_page {
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if may_pack && is_page { packed(response).await } else { response }
}

pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let taken = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    let mut kinds =
        taken.flat_map(|value| value.split(',')).map(|kind| kind.split_once(';').unwrap_or((kind, "")));
    let is_refused = |weight: &str| {
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        weight.is_some_and(|weight| weight <= 0.0)
    };
    kinds.any(|(kind, weight)| kind.trim() == "gzip" && !is_refused(weight))
}

/// A page tells secrets of its session beside texts that others chose; whoever could make the browser ask for it again and again
/// would learn them from its packed size. Nobody can: the cookie comes with no call that another site's page began.
async fn packed(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(text) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    match gzip(&text, Compression::fast()).filter(|_| text.len() >= MIN_PACKED) {
        Some(packed) => {
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, packed.into())
        }
        None => Response::from_parts(parts, text.into()),
    }
}

/// `None` only where memory can't be written to.
pub fn gzip(text: &[u8], level: Compression) -> Option<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::with_capacity(text.len() / 3), level);
    packer.write_all(text).ok()?;
    packer.finish().ok()
}
