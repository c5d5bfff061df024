//! A server that answers what a test says, and breaks off where it says so.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    HeaderMap, Method, Request, Response,
    body::{Body, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// A call that came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    /// Path and query.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Only so many bytes of the body are sent, and the connection is closed.
    pub breaks_after: Option<usize>,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), breaks_after: None }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn breaking_after(mut self, bytes: usize) -> Self {
        self.breaks_after = Some(bytes);
        self
    }
}

type Answers = dyn Fn(usize, &Asked) -> Reply + Send + Sync;

/// Listens until it is dropped.
pub struct Server {
    pub port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// `answers` is told the how manyth call it is, from 0.
    pub fn start(answers: impl Fn(usize, &Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(None, free(), Arc::new(answers))
    }

    /// At an address that was taken before.
    pub fn start_at(
        listener: std::net::TcpListener,
        answers: impl Fn(usize, &Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(None, listener, Arc::new(answers))
    }

    pub fn secured(
        tls: TlsAcceptor,
        answers: impl Fn(usize, &Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Some(tls), free(), Arc::new(answers))
    }

    fn listen(tls: Option<TlsAcceptor>, listener: std::net::TcpListener, answers: Arc<Answers>) -> Self {
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, seen, tls) = (Arc::clone(&answers), Arc::clone(&seen), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, answers, seen).await,
                        // Who is refused says so on the other side.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, answers, seen).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, asked, accepting }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The calls that came, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn free() -> std::net::TcpListener {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    answers: Arc<Answers>,
    seen: Arc<Mutex<Vec<Asked>>>,
) {
    let ending = Arc::new(AtomicBool::new(false));
    let stream = Breaking { stream, ending: Arc::clone(&ending) };
    let service = service_fn(|request: Request<Incoming>| {
        let (answers, seen, ending) = (Arc::clone(&answers), Arc::clone(&seen), Arc::clone(&ending));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let target = head.uri.path_and_query().unwrap().to_string();
            let asked = Asked { method: head.method, target, headers: head.headers, body };
            let nth = {
                let mut seen = seen.lock().unwrap();
                seen.push(asked.clone());
                seen.len() - 1
            };
            Ok::<_, Infallible>(written(answers(nth, &asked), ending))
        }
    });
    // One that breaks off is an error here, and meant.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn written(reply: Reply, ending: Arc<AtomicBool>) -> Response<Sent> {
    let mut response = Response::builder().status(reply.status);
    let tells_length = reply.headers.iter().any(|(name, _)| *name == "content-length");
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    let whole = reply.body.len();
    if reply.breaks_after.is_some() && !tells_length {
        response = response.header("content-length", whole.to_string());
    }
    let sent = Bytes::from(reply.body).slice(..reply.breaks_after.unwrap_or(whole));
    let sent = Some(sent).filter(|sent| !sent.is_empty());
    response.body(Sent { sent, ending: reply.breaks_after.map(|_| ending) }).unwrap()
}

/// A body at the end of which the connection may break.
struct Sent {
    sent: Option<Bytes>,
    ending: Option<Arc<AtomicBool>>,
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match (self.sent.take(), &self.ending) {
            (Some(sent), _) => Poll::Ready(Some(Ok(Frame::data(sent)))),
            (None, None) => Poll::Ready(None),
            (None, Some(ending)) => {
                ending.store(true, Ordering::Relaxed);
                Poll::Pending
            }
        }
    }
}

/// A connection that ends when it is told to, once all has been written.
struct Breaking<S> {
    stream: S,
    ending: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Breaking<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Breaking<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        let ends = self.ending.load(Ordering::Relaxed);
        Poll::Ready(if ends { Err(io::Error::other("broken off")) } else { Ok(()) })
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
