//! The bodies of answers.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    body::{Body, Frame, SizeHint},
    header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};
use wasmtime_wasi_http::{Error, p2::body::HyperOutgoingBody};

/// Set before an instance that failed is gone.
pub(super) type Failed = Arc<AtomicBool>;

/// A body that ends well only if its instance didn't fail. Where an instance is gone before it ended its body, the body ends, and
/// would be taken for a whole one: so it is cut.
#[derive(Debug)]
pub(super) enum Answer {
    OfInstance { body: HyperOutgoingBody, failed: Failed },
    Ours(Full<Bytes>),
}

impl Answer {
    /// An answer that no instance gave, as text.
    pub(super) fn ours(status: StatusCode, text: &str) -> Response<Self> {
        let mut response = Response::new(Self::Ours(Full::from(format!("{text}\n"))));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Poll::Ready(match self.get_mut() {
            Self::Ours(body) => match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => Some(Ok(frame)),
                Some(Err(never)) => match never {},
                None => None,
            },
            Self::OfInstance { body, failed } => match ready!(Pin::new(body).poll_frame(context)) {
                None if failed.load(Ordering::Acquire) => Some(Err(Error::HttpResponseIncomplete)),
                frame => frame,
            },
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Ours(body) => body.is_end_stream(),
            Self::OfInstance { body, failed } => body.is_end_stream() && !failed.load(Ordering::Acquire),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ours(body) => body.size_hint(),
            Self::OfInstance { body, .. } => body.size_hint(),
        }
    }
}
