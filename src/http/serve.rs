//! The listener: connections with limits, TLS where it is configured, and an orderly end.
//!
//! A slow or half-open connection costs a slot and nothing else: the head of a request must arrive in time, the
//! number of connections is limited, and each part of a body must arrive in time.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// The head of a request must be complete within this time of the connection's being idle.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// A TLS handshake must be complete within this time.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest head of a request, in bytes.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Requests in hand have this long to end at a shutdown.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// After a failed accept (no file descriptor left, usually).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What a listener is configured with.
#[derive(Clone)]
pub struct Settings {
    /// Connections at once; more wait to be accepted.
    pub max_connections: usize,
    pub tls: Option<TlsAcceptor>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("max_connections", &self.max_connections)
            .field("tls", &self.tls.is_some())
            .finish()
    }
}

/// Serves until `stop`, then lets requests in hand end.
pub async fn serve(listener: TcpListener, router: Router, settings: Settings, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(settings.max_connections));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = stop.cancelled() => break,
        };
        let Some((stream, slot)) = accepted else { continue };
        let watcher = graceful.watcher();
        let router = router.clone();
        let tls = settings.tls.clone();
        tokio::spawn(async move {
            let _slot = slot;
            match tls {
                None => connection(stream, router, watcher).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                        connection(stream, router, watcher).await;
                    }
                }
            }
        });
    }
    drop(listener);
    if timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
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

async fn connection<S>(stream: S, router: Router, watcher: hyper_util::server::graceful::Watcher)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES.max(8 * 1024))
        .half_close(false)
        .pipeline_flush(true);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(served).await {
        // The peer's doing in almost every case: it went away, was too slow, or spoke something else.
        tracing::debug!(%error, "a connection ended with an error");
    }
}
