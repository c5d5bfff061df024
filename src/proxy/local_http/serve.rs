//! Who answers.

use std::{convert::Infallible, fmt, future::Future, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{Request, Response, StatusCode, body::Incoming, header, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};

/// Connections at once. Further ones wait.
const MAX_CONNECTIONS: usize = 64;
/// How long a head or a body may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a question and its answer may take: whoever reads too slowly gives its place away.
const CONVERSATION: Duration = Duration::from_mins(10);
/// How long accepting rests when it can't go on.
const REST: Duration = Duration::from_millis(50);

/// The text format of Prometheus.
pub const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

pub type Answer = Response<Full<Bytes>>;

/// Something that takes connections.
pub trait Listener: fmt::Debug + Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        Ok(Self::accept(self).await?.0)
    }
}

impl Listener for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        Ok(Self::accept(self).await?.0)
    }
}

/// Answers whenever it is open, until the task is dropped.
pub async fn serve<L, A, F>(listener: L, open: watch::Receiver<bool>, answer: A)
where
    L: Listener,
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    serve_many(listener, MAX_CONNECTIONS, open, answer).await;
}

/// The same with so many connections at once.
pub async fn serve_many<L, A, F>(listener: L, connections: usize, mut open: watch::Receiver<bool>, answer: A)
where
    L: Listener,
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(connections));
    loop {
        if open.wait_for(|is_open| *is_open).await.is_err() {
            return;
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            biased;
            _ = open.wait_for(|is_open| !*is_open) => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(stream) => {
                let connection = converse(stream, answer.clone());
                tokio::spawn(async move {
                    let _ = timeout(CONVERSATION, connection).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the control can accept nothing for now");
                sleep(REST).await;
            }
        }
    }
}

/// Answers one question. A further one on the same connection would have to be turned away once another process takes over.
async fn converse<S, A, F>(stream: S, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // A caller that leaves is none of ours.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// Reads a body of JSON, of at most so many bytes; `what` names it in a refusal. An empty body is read as `{}`.
pub async fn read<F: DeserializeOwned>(
    request: Request<Incoming>,
    what: &str,
    at_most: usize,
) -> Result<F, (StatusCode, String)> {
    let body = match timeout(PATIENCE, Limited::new(request.into_body(), at_most).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, format!("a {what} has at most {at_most} bytes")));
        }
        Ok(Err(error)) => return Err((StatusCode::BAD_REQUEST, format!("the {what} broke off: {error}"))),
        Err(_) => return Err((StatusCode::REQUEST_TIMEOUT, format!("the {what} took too long"))),
    };
    let text = if body.is_empty() { b"{}" } else { body.as_ref() };
    serde_json::from_slice(text)
        .map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, format!("this is no {what}: {error}")))
}

#[must_use]
pub fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    let text = serde_json::to_vec(body).unwrap_or_default();
    typed(status, "application/json", text)
}

/// An answer of this type.
#[must_use]
pub fn typed(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    answer
}
