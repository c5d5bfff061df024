//! The bodies of children's calls. Anybody may send one, and the longer ones are held in memory until they are complete:
//! all that are longer than an agent's together take a bounded part of it.
//!
//! The limit of each call stands in the type of its body: a layer for it would cost every call a boxed service, a boxed
//! future and an extension of the request, which is more than the rest of many an answer.

use std::{error::Error, sync::Arc};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{FromRequest, Request},
    http::{StatusCode, header},
};
use http_body_util::LengthLimitError;

use super::refused::Refused;
use crate::{
    Context,
    metered_body::{FREE_BYTES, MemoryReservation, MeteredBody},
};
use engine::EngineError;

/// A body of at most `MAX` bytes, and the memory that it takes.
#[derive(Debug)]
pub(super) struct ChildBody<const MAX: usize> {
    pub bytes: Bytes,
    _account: Option<Arc<MemoryReservation>>,
}

impl<const MAX: usize> FromRequest<Context> for ChildBody<MAX> {
    type Rejection = Refused;

    async fn from_request(request: Request, ctx: &Context) -> Result<Self, Refused> {
        if is_short(&request) {
            let bytes = to_bytes(request.into_body(), MAX).await.map_err(|error| unread(&error))?;
            return Ok(Self { bytes, _account: None });
        }
        let account = Arc::new(MemoryReservation::default());
        let (memory, own) = (Arc::clone(&ctx.reporting), Arc::clone(&account));
        let body = Body::new(MeteredBody::new(request.into_body(), memory, own));
        match to_bytes(body, MAX).await {
            Ok(bytes) => Ok(Self { bytes, _account: Some(account) }),
            Err(_) if account.was_refused() => Err(EngineError::Busy.into()),
            Err(error) => Err(unread(&error)),
        }
    }
}

/// Why a body is not there.
fn unread(error: &axum::Error) -> Refused {
    if error.source().is_some_and(<dyn Error>::is::<LengthLimitError>) {
        return Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than this call accepts");
    }
    Refused::bad(format!("the body could not be read: {error}"))
}

/// Whether it says that it has no more than is free for each: most do.
fn is_short(request: &Request) -> bool {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length <= FREE_BYTES)
}
