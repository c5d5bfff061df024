//! The bodies of children's calls. Anybody may send one, and the longer ones are held in memory until they are complete:
//! all that are longer than an agent's together take a bounded part of it.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    http::header,
};

use super::Refused;
use crate::{
    engine::EngineError,
    http::{
        Context,
        charged::{Account, Charged, FREE_BYTES},
    },
};

/// A body, and the memory that it takes.
#[derive(Debug)]
pub(super) struct ChildBody {
    pub bytes: Bytes,
    _account: Option<Arc<Account>>,
}

impl FromRequest<Context> for ChildBody {
    type Rejection = Refused;

    async fn from_request(request: Request, ctx: &Context) -> Result<Self, Refused> {
        if is_short(&request) {
            return Ok(Self { bytes: Bytes::from_request(request, ctx).await?, _account: None });
        }
        let account = Arc::new(Account::default());
        let (memory, own) = (Arc::clone(&ctx.reporting), Arc::clone(&account));
        let request = request.map(|body| Body::new(Charged::new(body, memory, own)));
        match Bytes::from_request(request, ctx).await {
            Ok(bytes) => Ok(Self { bytes, _account: Some(account) }),
            Err(_) if account.was_refused() => Err(EngineError::Busy.into()),
            Err(rejection) => Err(rejection.into()),
        }
    }
}

/// Whether it says that it has no more than is free for each: most do.
fn is_short(request: &Request) -> bool {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length <= FREE_BYTES)
}
