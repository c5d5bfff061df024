//! Calls of versions that no caller made: whether one answers, and its first calls.

use std::{io, pin::pin, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use proxy::live::Target;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::{Instant, sleep, timeout},
};

use super::{Health, WarmUp};

/// Bytes of an answer to a check that are read.
const ANSWER: usize = 1024 * 1024;

/// Checks of a version, until it answered as often in a row as it has to or is given up.
#[derive(Debug)]
pub(crate) struct Checks<'h> {
    health: &'h Health,
    until: Instant,
    passed: u32,
}

/// What came of a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Healthy,
    NotYet,
    /// With what was wrong at last.
    GivenUp(String),
}

impl<'h> Checks<'h> {
    pub(crate) fn new(health: &'h Health) -> Self {
        Self { health, until: Instant::now() + health.give_up, passed: 0 }
    }

    /// Makes one, and waits until the next is due where there has to be one.
    pub(crate) async fn next(&mut self, target: &Target) -> Checked {
        let health = self.health;
        let why = match timeout(health.timeout, answers(target, health.path.as_deref())).await {
            Ok(Ok(())) => {
                self.passed += 1;
                "not as often in a row as it has to be".to_owned()
            }
            failed => {
                self.passed = 0;
                let late = format!("no answer within {} ms", health.timeout.as_millis());
                failed.map_or(late, |failed| failed.err().unwrap_or_default())
            }
        };
        if self.passed >= health.healthy_after.max(1) {
            return Checked::Healthy;
        }
        if Instant::now() >= self.until {
            return Checked::GivenUp(why);
        }
        sleep(health.interval.max(SHORTEST)).await;
        Checked::NotYet
    }
}

/// The shortest pause between two checks.
const SHORTEST: Duration = Duration::from_millis(1);

/// Whether it takes a connection, or answers a GET of this path with 2xx or 3xx.
pub(crate) async fn answers(target: &Target, path: Option<&str>) -> Result<(), String> {
    match path {
        None => connect(target).await.map(drop).map_err(|error| format!("{target}: {error}")),
        Some(path) => match call(target, "GET", path, Bytes::new()).await {
            Ok(status) if status.is_success() || status.is_redirection() => Ok(()),
            Ok(status) => Err(format!("GET {path} is answered with {status}")),
            Err(why) => Err(format!("GET {path}: {why}")),
        },
    }
}

/// Makes the first calls of a version. They may fail: what a function thinks of them is no reason not to run it.
pub(crate) async fn warm_up(target: &Target, warm_up: &WarmUp) {
    let body = Bytes::from(warm_up.body.clone());
    for number in 0..warm_up.calls {
        let call = call(target, &warm_up.method, &warm_up.path, body.clone());
        match timeout(warm_up.timeout, call).await {
            Ok(Ok(status)) => tracing::debug!(number, %status, %target, "warm-up"),
            Ok(Err(why)) => tracing::debug!(number, why, %target, "warm-up"),
            Err(_) => tracing::debug!(number, %target, "no answer to a warm-up call in time"),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

async fn connect(target: &Target) -> io::Result<Box<dyn Stream>> {
    Ok(match target {
        Target::Tcp(address) | Target::Below { address, .. } => Box::new(TcpStream::connect(address).await?),
        Target::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

/// A call of a version, and the status that it is answered with once the whole answer is there.
pub(crate) async fn call(
    target: &Target,
    method: &str,
    path: &str,
    body: Bytes,
) -> Result<StatusCode, String> {
    let host = match target {
        Target::Tcp(address) | Target::Below { address, .. } => address.to_string(),
        Target::Unix(_) => "localhost".to_owned(),
    };
    let path = target.with_path(path);
    let request = Request::builder().method(method).uri(&*path).header(HOST, host).body(Full::new(body));
    let request = request.map_err(|error| error.to_string())?;
    let stream = connect(target).await.map_err(|error| error.to_string())?;
    let (mut send, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let exchange = async {
        let answer = send.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = http_body_util::Limited::new(answer.into_body(), ANSWER);
        body.collect().await.map_err(|error| error.to_string())?;
        Ok(status)
    };
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        answered = &mut exchange => answered,
        // What came before its end may be the whole answer.
        ended = connection => exchange.await.map_err(|why| match ended {
            Ok(()) => format!("the connection was closed before the answer: {why}"),
            Err(error) => error.to_string(),
        }),
    }
}
