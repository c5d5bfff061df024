//! What is shown to whoever monitors a proxy, over TCP: `/metrics` and `/healthz`, and nothing that changes anything.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{control_handler::ControlHandler, counts};

/// Connections at once, a socket. At the limit no further one is accepted.
const MAX_CONNECTIONS: usize = 32;
/// Bytes of a head. Above: 431.
const MAX_HEAD: usize = 8 * 1024;
/// How long a head may take. Longer: the connection is closed.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection may take altogether, with the answer. Longer: it is closed.
const WHOLE: Duration = Duration::from_mins(1);
/// How long accepting rests when it can't go on.
const REST: Duration = Duration::from_millis(50);

/// Answers until this process finishes: whoever took over answers then, on the same socket.
pub(crate) async fn expose(listener: TcpListener, handler: Arc<ControlHandler>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut finish = handler.is_to_finish();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            biased;
            _ = finish.wait_for(Option::is_some) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = converse(stream, Arc::clone(&handler));
                tokio::spawn(async move {
                    let _ = timeout(WHOLE, connection).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "whoever reads metrics can't be accepted for now");
                sleep(REST).await;
            }
        }
    }
}

/// Answers one question. The next one may be another process's.
async fn converse(stream: TcpStream, handler: Arc<ControlHandler>) {
    let service = service_fn(|request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(answer(&request, &handler).await) }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.keep_alive(false).max_buf_size(MAX_HEAD).timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    // A caller that leaves is none of ours.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: &Request<Incoming>, handler: &ControlHandler) -> Response<Full<Bytes>> {
    match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET | &Method::HEAD) => counts::metrics(handler).await,
        ("/healthz", &Method::GET | &Method::HEAD) => text(StatusCode::OK, "ok\n"),
        ("/metrics" | "/healthz", _) => {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "this is only read: GET or HEAD\n");
            answer.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
            answer
        }
        _ => text(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}
