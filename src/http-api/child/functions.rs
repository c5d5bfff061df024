//! `GET /release/functions/R`: the functions of a release as `fns.zip`.
//!
//! Deployed agents exit on an error here: trouble that passes is waited for.

use axum::{
    body::{Body, Bytes},
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::{
    caller::{check_token, holder, is_open},
    refused::Refused,
    retry::until_answered,
};
use crate::{Context, auth::bearer, context::PATIENCE};
use domain::{release::state::Snapshot, workflows::Part};
use engine::{
    EngineError, json_columns,
    view::{Archive, Resolved},
};
use model::tenant;
use store::StoreError;

/// Who fetches; deployed agents don't say.
#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    #[serde(rename = "childID", default)]
    child: String,
}

/// The digest of the whole, of which a part may be sent.
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The functions of a release. `ETag`, Range and HEAD work, and `Repr-Digest` names the SHA-256 of the whole.
#[utoipa::path(get, path = "/release/functions/{offer}", operation_id = "fetch_functions", tag = "child protocol",
    params(
        ("offer" = String, Path, description = "The id inside the offer."),
        ("childID" = Option<String>, Query, description = "Who fetches."),
    ),
    responses(
        (status = 200, description = "fns.zip.", content_type = "application/zip", body = String),
        (status = 206, description = "A part of it."),
        (status = 304, description = "It is as it was."),
        (status = 404, description = "Unknown.", content_type = "text/plain", body = String),
        (status = 416, description = "No such part."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    method: Method,
    offer: Result<Path<String>, PathRejection>,
    parameters: Result<Query<Parameters>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let Path(offer) = offer.map_err(|e| Refused::bad(e.body_text()))?;
    let Query(parameters) = parameters.map_err(|e| Refused::bad(e.body_text()))?;
    let child = caller(&ctx, &headers, &parameters.child)?;
    let unknown = || Refused::new(StatusCode::NOT_FOUND, format!("there is no release {offer}"));
    if let Some((digest, archive)) = placed(&ctx, &offer, &parameters.child).await? {
        let sum = archive.sum().await;
        return Ok(answer(&method, &headers, &digest, &sum, archive.bytes));
    }
    let own_id = ctx.view().releases.own_id(&offer);
    let resolved = resolve(&ctx, &own_id).await?.ok_or_else(unknown)?;
    if is_of_another_tenant(&ctx, &headers, &own_id) {
        return Err(unknown());
    }
    // The id of a tenant's release is no secret: whoever asks by it is to be a child that takes part.
    let is_guessable = own_id == offer && ctx.view().releases.secret_of(&offer) != offer;
    let child = child.or_else(|| is_guessable.then_some(parameters.child));
    if let Some(child) = child
        && !has_part(&ctx, &child, &resolved).await?
    {
        // As if there were none: a token tells nothing of releases that are none of its business.
        return Err(unknown());
    }
    let (digest, archive) = find(&ctx, &resolved, &own_id).await?.ok_or_else(unknown)?;
    let sum = archive.sum().await;
    Ok(answer(&method, &headers, &digest, &sum, archive.bytes))
}

/// The archive of an instance of a workflow that is to run at the child; by its id, which no offer has.
async fn placed(ctx: &Context, instance: &str, child: &str) -> Result<Option<([u8; 32], Archive)>, Refused> {
    if instance.len() != UUID_LEN || child.is_empty() {
        return Ok(None);
    }
    let (instance, child) = (instance.to_owned(), child.to_owned());
    let read = move |state: &Snapshot| {
        let node = state.children.key(&child)?;
        let is_it = |part: &Part| part.instance.iter().chain(&part.next).any(|one| *one.id == *instance);
        let (_, part) = state.workflows.on_node(node).find(|(_, part)| is_it(part))?;
        state.workflows.by_key(part.workflow)?.archive
    };
    let Some(digest) = ctx.engine.read(PATIENCE, read).await? else { return Ok(None) };
    if let Some(archive) = ctx.view().archives.get(&digest) {
        return Ok(Some((digest, archive)));
    }
    let bytes = ctx.engine.reader().archive(&digest).await.map_err(|error| {
        tracing::warn!(%error, "the functions of a workflow could not be read");
        Refused::unavailable(ctx)
    })?;
    Ok(bytes.map(|bytes| (digest, ctx.view().keep_archive(digest, bytes))))
}

/// Characters of a UUID.
const UUID_LEN: usize = 36;

/// The child that calls, where a token says so. Deployed agents say nothing of who they are here.
fn caller(ctx: &Context, headers: &HeaderMap, named: &str) -> Result<Option<String>, Refused> {
    if is_open(ctx) {
        return Ok(None);
    }
    let holder = holder(ctx, headers);
    let named = if named.is_empty() { holder.as_deref().unwrap_or_default() } else { named };
    check_token(ctx, headers, named)?;
    Ok(holder)
}

/// Whether who calls shows the token of an operator of another tenant.
fn is_of_another_tenant(ctx: &Context, headers: &HeaderMap, offer: &str) -> bool {
    let own = tenant::split(offer).map(|(tenant, _)| tenant);
    let operator = bearer(headers).and_then(|token| ctx.settings.auth.operator(&token).cloned());
    let theirs = operator.and_then(|operator| operator.grant.tenant);
    theirs.is_some_and(|theirs| own.is_some_and(|own| own != theirs.as_str()))
}

async fn has_part(ctx: &Context, child: &str, resolved: &Resolved) -> Result<bool, Refused> {
    let attempt = || async {
        let answer = ctx.engine.takes_part(child, resolved.release, PATIENCE).await;
        (!answer.as_ref().is_err_and(EngineError::passes)).then_some(answer)
    };
    let answer = until_answered(ctx, attempt).await.ok_or_else(|| Refused::unavailable(ctx))?;
    Ok(answer?)
}

/// Which release it is. That there is none can only be said while the lease is fresh: another manager may know it.
async fn resolve(ctx: &Context, offer: &str) -> Result<Option<Resolved>, Refused> {
    let attempt = || async {
        let found = ctx.view().releases.resolve(offer);
        (found.is_some() || ctx.is_serving()).then_some(found)
    };
    until_answered(ctx, attempt).await.ok_or_else(|| Refused::unavailable(ctx))
}

async fn find(
    ctx: &Context,
    resolved: &Resolved,
    offer: &str,
) -> Result<Option<([u8; 32], Archive)>, Refused> {
    let view = ctx.view();
    let in_memory = view.releases.with(resolved.release, |release| release.archive);
    if let Some(digest) = in_memory
        && let Some(bytes) = view.archives.get(&digest)
    {
        return Ok(Some((digest, bytes)));
    }
    let attempt = || async {
        let found = look_up(ctx, offer, in_memory).await;
        (!found.as_ref().is_err_and(StoreError::passes)).then_some(found)
    };
    let found = until_answered(ctx, attempt).await.ok_or_else(|| Refused::unavailable(ctx))?;
    found.map_err(|error| {
        ctx.engine.unreadable().note(&error);
        tracing::error!(%error, offer, "the functions of a release could not be read");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the functions could not be read")
    })
}

async fn look_up(
    ctx: &Context,
    offer: &str,
    digest: Option<[u8; 32]>,
) -> Result<Option<([u8; 32], Archive)>, StoreError> {
    let reader = ctx.engine.reader();
    let digest = if let Some(digest) = digest {
        digest
    } else {
        let Some(id) = ctx.view().releases.id_of(offer) else { return Ok(None) };
        let Some(row) = reader.release(id.as_str()).await? else { return Ok(None) };
        json_columns::archive(&row)?
    };
    if let Some(bytes) = ctx.view().archives.get(&digest) {
        return Ok(Some((digest, bytes)));
    }
    let Some(bytes) = reader.archive(&digest).await? else { return Ok(None) };
    Ok(Some((digest, ctx.view().keep_archive(digest, bytes))))
}

fn answer(method: &Method, headers: &HeaderMap, digest: &[u8; 32], sum: &[u8; 32], bytes: Bytes) -> Response {
    let tag = tag(digest);
    let total = bytes.len();
    let mut response = Response::new(Body::empty());
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    // The name under which agents know it.
    out.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"fns.zip\""));
    out.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(value) = HeaderValue::from_str(&tag) {
        out.insert(header::ETAG, value);
    }
    // Whoever puts parts together knows whether they are right (RFC 9530).
    let mut whole = String::with_capacity(56);
    whole.push_str("sha-256=:");
    STANDARD.encode_string(sum, &mut whole);
    whole.push(':');
    if let Ok(value) = HeaderValue::try_from(whole) {
        out.insert(REPR_DIGEST, value);
    }
    if has_tag(headers, header::IF_NONE_MATCH, &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    let range_counts = !headers.contains_key(header::IF_RANGE) || has_tag(headers, header::IF_RANGE, &tag);
    let range = headers.get(header::RANGE).filter(|_| range_counts && *method == Method::GET);
    match range.and_then(|value| parse_range(value.to_str().ok()?, total)) {
        Some(Ok((from, to))) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            content_range(&mut response, &format!("bytes {from}-{to}/{total}"));
            *response.body_mut() = Body::from(bytes.slice(from..=to));
        }
        Some(Err(())) => {
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            content_range(&mut response, &format!("bytes */{total}"));
        }
        None => *response.body_mut() = Body::from(bytes),
    }
    response
}

/// The entity tag. Without the formatting machinery, which would cost more than the rest of the answer.
fn tag(digest: &[u8; 32]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut tag = String::with_capacity(2 + 2 * 16);
    tag.push('"');
    for byte in &digest[..16] {
        tag.push(DIGITS[usize::from(byte >> 4)]);
        tag.push(DIGITS[usize::from(byte & 15)]);
    }
    tag.push('"');
    tag
}

fn content_range(response: &mut Response, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(header::CONTENT_RANGE, value);
    }
}

fn has_tag(headers: &HeaderMap, name: header::HeaderName, tag: &str) -> bool {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
    })
}

/// First and last byte of a range. `None`: not one range of bytes, so all is sent (RFC 9110, 14.2). `Some(Err)`:
/// it lies outside.
fn parse_range(value: &str, total: usize) -> Option<Result<(usize, usize), ()>> {
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| -> Option<usize> {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse().unwrap_or(usize::MAX))
    };
    match (number(first.trim()), number(last.trim())) {
        (Some(first), _) if first >= total => Some(Err(())),
        (Some(first), Some(last)) if last >= first => Some(Ok((first, last.min(total - 1)))),
        (Some(first), None) if last.trim().is_empty() => Some(Ok((first, total - 1))),
        (None, Some(0)) => Some(Err(())),
        (None, Some(length)) if first.is_empty() && total > 0 => {
            Some(Ok((total.saturating_sub(length), total - 1)))
        }
        _ => None,
    }
}
