//! The calls of children without a connection, for what is led from within this process.

use std::net::Ipv4Addr;

use axum::{
    BoxError, Router,
    body::{Body, BodyDataStream, Bytes},
    http::{Request, Response},
};
use futures_util::future::BoxFuture;
use hyper::body::Body as HttpBody;
use tower::ServiceExt as _;

use super::{Context, address::Peer, child_router};

/// What children call. Clones are the same.
#[derive(Debug, Clone)]
pub struct InProcess(Router);

impl InProcess {
    pub fn new(ctx: Context) -> Self {
        Self(child_router(ctx))
    }

    /// Answers as to a child on this machine. No time is set for that; who drops the answer before it is there gives the call up.
    pub fn call<B>(&self, request: Request<B>) -> BoxFuture<'static, Response<BodyDataStream>>
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(Ipv4Addr::LOCALHOST.into()));
        let answer = self.0.clone().oneshot(request);
        Box::pin(
            async move { answer.await.unwrap_or_else(|never| match never {}).map(Body::into_data_stream) },
        )
    }
}
