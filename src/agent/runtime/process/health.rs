//! Whether a version answers, and its first calls.

use std::{io, time::Duration};

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

use super::{
    super::{Health, Phase, WarmUp, error::Fault},
    ask, listeners,
    run::Run,
    shim::Status,
    tree,
};

/// Bytes of an answer to a check that are read.
const ANSWER: usize = 1024 * 1024;

/// Waits until a version answers. `before` is how often it had been started again when that began.
pub(super) async fn until_healthy(
    run: &Run,
    target: &Target,
    health: &Health,
    before: u64,
) -> Result<Status, Fault> {
    let until = Instant::now() + health.give_up;
    let mut passed = 0;
    loop {
        let status = ask::status(run).await?;
        if let Some(exit) = status.last_exit.clone()
            && (status.phase == Phase::Pauses || status.restarts > before)
        {
            return Err(Fault::DiedAtOnce { exit, log: run.tail() });
        }
        let check = timeout(health.timeout, check(target, health.path.as_deref(), status.shim));
        let why = match check.await {
            Ok(Ok(())) => {
                passed += 1;
                None
            }
            Ok(Err(why)) => Some(why),
            Err(_) => Some(format!("no answer within {} ms", health.timeout.as_millis())),
        };
        if passed >= health.healthy_after.max(1) {
            return Ok(status);
        }
        if why.is_some() {
            passed = 0;
        }
        if Instant::now() >= until {
            let why = why.unwrap_or_else(|| "not as often in a row as it has to be".to_owned());
            return Err(Fault::NeverHealthy { after: health.give_up, why, log: run.tail() });
        }
        sleep(health.interval).await;
    }
}

async fn check(target: &Target, path: Option<&str>, shim: u32) -> Result<(), String> {
    if let Target::Tcp(address) = target {
        // Somebody else may answer there.
        let ports = listeners::ports(&tree::descendants(shim));
        if !ports.contains(&address.port()) {
            let others = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            return Err(match others.as_str() {
                "" => format!("it doesn't listen on $PORT, which is {}", address.port()),
                others => format!("it listens on {others}, not on $PORT, which is {}", address.port()),
            });
        }
    }
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
pub(super) async fn warm_up(target: &Target, warm_up: &WarmUp) {
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

async fn call(target: &Target, method: &str, path: &str, body: Bytes) -> Result<StatusCode, String> {
    let host = match target {
        Target::Tcp(address) | Target::Below { address, .. } => address.to_string(),
        Target::Unix(_) => "localhost".to_owned(),
    };
    let request = Request::builder().method(method).uri(path).header(HOST, host).body(Full::new(body));
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
    tokio::select! {
        biased;
        answered = exchange => answered,
        ended = connection => Err(match ended {
            Ok(()) => "the connection was closed before the answer".to_owned(),
            Err(error) => error.to_string(),
        }),
    }
}

/// How long a version that did not become healthy has to end.
pub(super) const SHORT_GRACE: Duration = Duration::from_secs(1);
