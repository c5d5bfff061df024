//! The listener: connections with limits, TLS where it is configured, and an orderly end.
//!
//! A slow or half-open connection costs a slot and nothing else: the head of a request must arrive in time, the
//! number of connections is limited, each part of a body must arrive in time, and so must the whole of it; and
//! whoever doesn't take its answer is cut off.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, header},
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Either, ready},
};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper_util::{
    rt::TokioIo,
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::{
    address::{self, Peer},
    host::Hosts,
};

/// The head of a request must be complete within this time of the connection's being idle.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// Each part of a body must arrive within this time.
pub const BODY_PART_TIMEOUT: Duration = Duration::from_secs(30);

/// A whole body must arrive within this time, unless configured otherwise. The largest takes 4.5 Mbit/s then.
pub const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// A peer that takes nothing of its answer for this long is cut off.
pub const WRITE_TIMEOUT: Duration = Duration::from_mins(1);

/// A TLS handshake must be complete within this time.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest head of a request, in bytes.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Requests in hand have this long to end at a shutdown.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// After a failed accept (no file descriptor left, usually).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long slow peers are borne with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub head: Duration,
    pub body_part: Duration,
    pub body: Duration,
    pub write: Duration,
    pub handshake: Duration,
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: HEAD_TIMEOUT,
            body_part: BODY_PART_TIMEOUT,
            body: BODY_TIMEOUT,
            write: WRITE_TIMEOUT,
            handshake: HANDSHAKE_TIMEOUT,
            drain: DRAIN_TIMEOUT,
        }
    }
}

/// What a listener is configured with.
#[derive(Clone)]
pub struct Settings {
    /// Connections at once; more wait to be accepted.
    pub max_connections: usize,
    pub tls: Option<TlsAcceptor>,
    pub timeouts: Timeouts,
    /// Under which names it is called.
    pub hosts: Arc<Hosts>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("max_connections", &self.max_connections)
            .field("tls", &self.tls.is_some())
            .field("timeouts", &self.timeouts)
            .field("hosts", &self.hosts)
            .finish()
    }
}

/// Serves until `stop`, then lets requests in hand end.
pub fn serve(
    listener: TcpListener,
    router: Router,
    settings: Settings,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(accept_until(listener, router, settings, stop))
}

async fn accept_until(listener: TcpListener, router: Router, settings: Settings, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(settings.max_connections));
    let graceful = GracefulShutdown::new();
    let timeouts = settings.timeouts;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = stop.cancelled() => break,
        };
        let Some((stream, slot)) = accepted else { continue };
        let local = stream.local_addr().ok().map(|address| address.ip());
        let peer = stream.peer_addr().ok().map(|address| Peer(address.ip().to_canonical()));
        let activity = Arc::new(Activity::new());
        let stream = Impatient::new(stream, timeouts.write, Arc::clone(&activity));
        let watcher = graceful.watcher();
        let site = Site { router: router.clone(), hosts: Arc::clone(&settings.hosts), local, peer };
        let tls = settings.tls.clone();
        tokio::spawn(async move {
            let _slot = slot;
            match tls {
                None => connection(stream, site, timeouts, watcher, activity).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(timeouts.handshake, tls.accept(stream)).await {
                        connection(stream, site, timeouts, watcher, activity).await;
                    }
                }
            }
        });
    }
    drop(listener);
    if timeout(timeouts.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}

async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Answers are small: waiting to fill a segment would only delay them.
            let _ = stream.set_nodelay(true);
            Some((stream, slot))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            sleep(ACCEPT_RETRY).await;
            None
        }
    }
}

/// What is called on a connection.
struct Site {
    router: Router,
    hosts: Arc<Hosts>,
    /// The address that the connection came to.
    local: Option<IpAddr>,
    /// Its other end.
    peer: Option<Peer>,
}

async fn connection<S>(stream: S, site: Site, timeouts: Timeouts, watcher: Watcher, activity: Arc<Activity>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = hyper::server::conn::http1::Builder::new();
    http.max_buf_size(MAX_HEAD_BYTES).half_close(false);
    let calls = Arc::clone(&activity);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let admitted = site.hosts.admit(&request, site.local);
        let has_body = !request.body().is_end_stream();
        calls.begin(has_body);
        let calls = Arc::clone(&calls);
        let answering = match admitted {
            Ok(()) => {
                let mut request = request.map(|body| {
                    let timed = || TimedBody::new(body, timeouts, Arc::clone(&calls));
                    if has_body { Body::new(timed()) } else { Body::empty() }
                });
                if let Some(peer) = site.peer.filter(|_| address::is_asked_for(request.uri().path())) {
                    request.extensions_mut().insert(peer);
                }
                Either::Left(site.router.clone().call(request))
            }
            Err(refused) => Either::Right(ready(Ok(refused))),
        };
        answering.map(move |mut answer| {
            if calls.end()
                && let Ok(answer) = &mut answer
            {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        })
    });
    let served = http.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        served = watcher.watch(served) => if let Err(error) = served {
            // The peer's doing in almost every case: it went away, was too slow, or spoke something else.
            tracing::debug!(%error, "a connection ended with an error");
        },
        () = activity.idle_for(timeouts.head) => tracing::debug!("a connection was idle for too long"),
    }
}

/// When a connection last did something. HTTP's own timer for the head of a request is set anew for each request,
/// which takes a lock and an allocation; this costs some stores, and a look now and then.
struct Activity {
    opened: Instant,
    /// Milliseconds from `opened` to the last bytes that were sent.
    sent_ms: AtomicU64,
    /// [`IDLE`], [`IN_CALL`] or [`ANSWERED`].
    state: AtomicU8,
    /// Whether something of the request's body is still to come.
    body_is_due: AtomicBool,
}

/// No request is there, or its answer is being sent.
const IDLE: u8 = 0;

/// A request is being answered.
const IN_CALL: u8 = 1;

/// There is an answer, of which nothing is sent yet.
const ANSWERED: u8 = 2;

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            sent_ms: AtomicU64::new(0),
            state: AtomicU8::new(IDLE),
            body_is_due: AtomicBool::new(false),
        }
    }

    fn begin(&self, has_body: bool) {
        self.body_is_due.store(has_body, Ordering::Relaxed);
        self.state.store(IN_CALL, Ordering::Relaxed);
    }

    fn body_is_there(&self) {
        self.body_is_due.store(false, Ordering::Relaxed);
    }

    /// True: what is left of the body will not be read, and so no other request can follow.
    fn end(&self) -> bool {
        self.state.store(ANSWERED, Ordering::Relaxed);
        self.body_is_due.load(Ordering::Relaxed)
    }

    fn sent(&self) {
        if self.state.load(Ordering::Relaxed) == ANSWERED {
            self.state.store(IDLE, Ordering::Relaxed);
        }
        self.sent_ms.store(self.opened.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Ends when for so long nothing was sent and no request was being answered: the head of the next one is not
    /// complete. Answers without an end (events) send something often enough.
    async fn idle_for(&self, limit: Duration) {
        loop {
            let since = match self.state.load(Ordering::Relaxed) {
                IDLE => self.opened + Duration::from_millis(self.sent_ms.load(Ordering::Relaxed)),
                _ => Instant::now(),
            };
            if since.elapsed() >= limit {
                return;
            }
            sleep_until(since + limit).await;
        }
    }
}

/// A body of which each part, and the whole, must arrive in time.
struct TimedBody {
    inner: Incoming,
    timeouts: Timeouts,
    /// When it must be complete; set when it is first waited for.
    until: Option<Instant>,
    /// Runs while a part is waited for.
    waiting: Option<Pin<Box<Sleep>>>,
    activity: Arc<Activity>,
}

impl TimedBody {
    fn new(inner: Incoming, timeouts: Timeouts, activity: Arc<Activity>) -> Self {
        Self { inner, timeouts, until: None, waiting: None, activity }
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            self.waiting = None;
            if frame.is_none() || self.inner.is_end_stream() {
                self.activity.body_is_there();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let timeouts = self.timeouts;
        let until = *self.until.get_or_insert_with(|| Instant::now() + timeouts.body);
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep_until(until.min(Instant::now() + timeouts.body_part))));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A stream that fails when its peer takes nothing for a time, and notes when it last sent something.
struct Impatient {
    inner: TcpStream,
    time_limit: Duration,
    activity: Arc<Activity>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn new(inner: TcpStream, time_limit: Duration, activity: Arc<Activity>) -> Self {
        Self { inner, time_limit, activity, waiting: None }
    }

    /// Bounds how long a write may be pending.
    fn bound<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.activity.sent();
            self.waiting = None;
            return written;
        }
        let time_limit = self.time_limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(time_limit)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.bound(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
