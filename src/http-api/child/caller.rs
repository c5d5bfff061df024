//! Who calls: the headers and the address by which a child is known.

use std::{convert::Infallible, net::IpAddr};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, header, request::Parts},
};

use super::refused::Refused;
use crate::{
    Context,
    auth::{IdentityMismatch, Token, bearer},
};
use engine::tokens::TokenStatus;

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
        Ok(Self(if is_open(ctx) { HeaderMap::new() } else { parts.headers.clone() }))
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

/// Whether nobody who calls is asked for a token.
pub(super) fn is_open(ctx: &Context) -> bool {
    ctx.settings.auth.children.is_open() && ctx.view().tokens.is_empty()
}

/// The child whose token a request brings along, if it is anybody's.
pub(super) fn holder(ctx: &Context, headers: &HeaderMap) -> Option<String> {
    let token = bearer(headers)?;
    let configured = ctx.settings.auth.children.holder(&token).map(str::to_owned);
    configured.or_else(|| ctx.view().tokens.holder(token.digest()))
}

/// Whether the caller may speak for `child`; everybody may where nobody has a token and none is required.
pub(super) fn check_token(ctx: &Context, headers: &HeaderMap, child: &str) -> Result<(), Refused> {
    if is_open(ctx) {
        return Ok(());
    }
    match joined(ctx, child)? {
        None => Ok(ctx.settings.auth.children.may_speak_for(child, headers)?),
        Some(own) => {
            let token = bearer(headers).ok_or(IdentityMismatch)?;
            if bool::from(own.is(&token)) { Ok(()) } else { Err(IdentityMismatch.into()) }
        }
    }
}

/// Refuses a child whose token holds no longer, whatever it sends.
pub(super) fn check_standing(ctx: &Context, child: &str) -> Result<(), Refused> {
    joined(ctx, child).map(drop)
}

/// The token that a child got by joining, if that is the one which it has to send.
fn joined(ctx: &Context, child: &str) -> Result<Option<Token>, Refused> {
    // What an operator has written down for a child counts, whatever it once joined with.
    if ctx.settings.auth.children.has(child) {
        return Ok(None);
    }
    let refused = |why| Err(Refused::new(StatusCode::UNAUTHORIZED, why));
    match ctx.view().tokens.of(child) {
        None => Ok(None),
        Some(TokenStatus::Holds(digest)) => Ok(Some(Token::of_digest(digest))),
        Some(TokenStatus::Revoked) => {
            refused("the token of this child was revoked: it has to join anew, with a join token")
        }
        Some(TokenStatus::Unreadable) => refused(
            "the token of this child can't be read in the manager's store: it has to be revoked, and the child to join anew",
        ),
    }
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
