//! Who calls: the headers and the address by which a child is known.

use std::{convert::Infallible, net::IpAddr};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, header, request::Parts},
};

use super::refused::Refused;
use crate::Context;

/// Refuses bodies that say they are something else than JSON. Those that say nothing are taken at their word.
pub(super) fn expect_json(headers: &HeaderMap) -> Result<(), Refused> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.as_bytes();
    if kind.starts_with(b"application/json") {
        return Ok(());
    }
    let essence = kind.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json")
        || essence.eq_ignore_ascii_case(b"text/json")
        || essence.to_ascii_lowercase().ends_with(b"+json")
    {
        return Ok(());
    }
    Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"))
}

/// The headers by which a caller is known; empty where nobody is asked for a token, because copying all that a request
/// brings would cost more than the rest of many an answer.
#[derive(Debug)]
pub(super) struct Credentials(pub HeaderMap);

impl FromRequestParts<Context> for Credentials {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, ctx: &Context) -> Result<Self, Refused> {
        let is_open = ctx.settings.auth.children.is_open();
        Ok(Self(if is_open { HeaderMap::new() } else { parts.headers.clone() }))
    }
}

/// The headers by which the caller of a call with JSON is known; a body that says that it is something else is refused.
#[derive(Debug)]
pub(super) struct JsonCall(pub HeaderMap);

impl FromRequestParts<Context> for JsonCall {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, ctx: &Context) -> Result<Self, Refused> {
        expect_json(&parts.headers)?;
        let Credentials(headers) = Credentials::from_request_parts(parts, ctx).await?;
        Ok(Self(headers))
    }
}

/// Whether the caller may speak for `child`; everybody may where no tokens are configured.
pub(super) fn check_token(ctx: &Context, headers: &HeaderMap, child: &str) -> Result<(), Refused> {
    let tokens = &ctx.settings.auth.children;
    if tokens.is_open() {
        return Ok(());
    }
    Ok(tokens.may_speak_for(child, headers)?)
}

/// Where the call in hand comes from; only at paths that [`crate::address::is_asked_for`] names. `None`: nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallerAddress(pub Option<IpAddr>);

impl FromRequestParts<Context> for CallerAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, ctx: &Context) -> Result<Self, Self::Rejection> {
        Ok(Self(ctx.settings.proxies.caller(parts)))
    }
}
