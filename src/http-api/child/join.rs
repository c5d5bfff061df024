//! `POST /join`.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};

use super::{
    body::ChildBody,
    caller::{CallerAddress, expect_json},
    refused::Refused,
    reply::json,
};
use crate::{Context, auth::bearer, context::PATIENCE, quota};
use engine::joining::Newcomer;
use protocol::child::{JoinAnswer, JoinRequest, MAX_JOIN_BODY_BYTES};

/// A new child, with a token that lets it in, gets an id and a token of its own, which it sends with each call from then on.
#[utoipa::path(post, path = "/join", operation_id = "join", tag = "child protocol",
    request_body(content = Object, description = "What it calls itself (`name`), its `kind`: `agent` or `rm`, and \
        a `nonce` of 32 to 128 random characters that it keeps: who joins again with the same is answered the same."),
    responses(
        (status = 200, description = "`id`, and the `token`, which is said to who joins alone.",
            content_type = "application/json", body = Object),
        (status = 400, description = "Malformed.", content_type = "text/plain", body = String),
        (status = 401, description = "No join token that is known here.", content_type = "text/plain", body = String),
        (status = 403, description = "Nobody can join here, or as many have as may.", content_type = "text/plain",
            body = String),
        (status = 409, description = "Who joined with this nonce had its token revoked, or another join token.", content_type = "text/plain",
            body = String),
        (status = 429, description = "Too many calls from the caller's address.", content_type = "text/plain",
            body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    CallerAddress(address): CallerAddress,
    headers: HeaderMap,
    body: Result<ChildBody<MAX_JOIN_BODY_BYTES>, Refused>,
) -> Result<Response, Refused> {
    expect_json(&headers)?;
    let doors = &ctx.settings.auth.doors;
    if doors.is_empty() {
        let why = "nobody can join this manager: it has no join tokens (auth.join_token_file)";
        return Err(Refused::new(StatusCode::FORBIDDEN, why));
    }
    if !ctx.joins.may(address) {
        let why = "too many wanted to join from this address; try again in a minute";
        return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, why));
    }
    let token = bearer(&headers);
    let found = token.as_ref().and_then(|token| Some((token, ctx.settings.auth.door(token)?)));
    let (join_token, door) = found.ok_or_else(|| {
        let why = "a join token that is known here is needed: Authorization: Bearer TOKEN";
        Refused::new(StatusCode::UNAUTHORIZED, why)
    })?;
    let body = body?;
    let request = JoinRequest::parse(&body.bytes)?;
    let most = ctx.settings.max_joined;
    let nonce = request.nonce.as_deref();
    let is_known = nonce.is_some_and(|nonce| ctx.engine.has_joined(join_token.digest(), nonce));
    if !is_known && ctx.view().tokens.valid() >= most {
        let why = format!("{most} children have joined, and more may not: revoke the tokens of some");
        return Err(Refused::new(StatusCode::FORBIDDEN, why));
    }
    if let Some(tenant) = door.tenant.as_ref().filter(|_| !is_known) {
        // It is looked at again when the child calls for the first time.
        quota::for_child(&ctx, tenant).await?;
    }
    let (door, tenant) = (door.name.as_str(), door.tenant.as_ref());
    let (name, kind, join_token) = (request.name.as_deref(), request.kind, join_token.digest());
    let newcomer = Newcomer { name, kind, door, join_token, nonce, tenant };
    let joined = ctx.engine.join(&newcomer, PATIENCE).await?.ok_or_else(|| {
        let why = "who joined with this nonce had its token revoked, or another join token: join with another nonce";
        Refused::new(StatusCode::CONFLICT, why)
    })?;
    let (id, token) = (joined.id.as_str().to_owned(), joined.token.reveal().to_owned());
    if is_known {
        tracing::info!(
            child = id,
            name,
            join_token = door,
            "a child that has joined asked again for its token"
        );
    } else {
        tracing::info!(child = id, name, join_token = door, "a child has joined");
    }
    let mut body = serde_json::to_vec(&JoinAnswer { id, token }).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written")
    })?;
    body.push(b'\n');
    Ok(json(body))
}
