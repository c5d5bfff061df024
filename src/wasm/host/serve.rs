//! Where calls come in.

use std::{convert::Infallible, io, path::Path, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    net::{UnixListener, UnixStream},
    signal::unix::{SignalKind, signal},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};

use super::{call::Calls, fault::Fault};

/// Connections at once. Further ones wait.
const CONNECTIONS: usize = 2_048;
/// What is waited where a connection can't be taken: too many files are open, for example.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes calls at a unix socket, over HTTP/1.1 and HTTP/2, until SIGTERM. Returns when those that are there then have ended.
pub(super) async fn serve(socket: &Path, calls: Arc<Calls>) -> Result<(), Fault> {
    let doing = || Fault::io(format!("listening at {}", socket.display()));
    let mut asked = signal(SignalKind::terminate()).map_err(Fault::io("waiting for signals"))?;
    // The one of an earlier life.
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(doing()(error)),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(socket).map_err(doing())?;
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let (ending, ends) = watch::channel(());
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            _ = asked.recv() => break,
            (place, accepted) = next => match (place, accepted) {
                (Ok(place), Ok((stream, _))) => {
                    tokio::spawn(connection(stream, Arc::clone(&calls), ends.clone(), place));
                }
                (Ok(_) | Err(_), _) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
    drop((listener, ends));
    // Connections are told by the end of the channel, and hold its other side for as long as they are there.
    let _ = ending.send(());
    ending.closed().await;
    calls.ended().await;
    Ok(())
}

async fn connection(
    stream: UnixStream,
    calls: Arc<Calls>,
    mut ends: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let calls = Arc::clone(&calls);
        async move { Ok::<_, Infallible>(calls.answer(request).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    // What a caller breaks off is no news.
    tokio::select! {
        _ = served.as_mut() => {}
        _ = ends.changed() => {
            served.as_mut().graceful_shutdown();
            let _ = served.await;
        }
    }
}
