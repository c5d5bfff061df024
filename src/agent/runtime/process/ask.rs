//! Asking a shim.

use std::time::Duration;

use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::{Instant, sleep, timeout},
};

use super::{
    super::error::Fault,
    run::{Held, Run},
    shim::{Ask, ShimResponse, Status},
    tree,
};

/// How long a shim may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take to begin.
const BEGINS: Duration = Duration::from_secs(1);
/// How long what was killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const ANSWER: u64 = 64 * 1024;

pub(super) async fn status(run: &Run) -> Result<Status, Fault> {
    match ask(run, &Ask::Status, PATIENCE).await? {
        ShimResponse::Status(status) => Ok(*status),
        other => Err(Fault::Answer(format!("{other:?}"))),
    }
}

/// Ends what a shim watches, and the shim. Where it doesn't answer, it is killed, and whoever clears the run ends the function.
///
/// `None`: somebody takes it away already, as one does who began to and is no longer waited for.
pub(super) async fn stop(run: &Run, grace: Duration) -> Result<Option<Held>, Fault> {
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let asked = ask(run, &Ask::Stop { grace_ms }, grace.saturating_add(2 * PATIENCE)).await;
    if let Ok(ShimResponse::Stopped { left }) = asked {
        if !left.is_empty() {
            return Err(Fault::Stuck(left));
        }
    } else if let Some(shim) = shim_of(run).await {
        tracing::warn!(shim, run = %run.folder().display(), "a shim doesn't answer, and is killed");
        tree::kill(shim, Signal::KILL);
    }
    let until = Instant::now() + GONE;
    loop {
        match run.take() {
            Ok(None) => {}
            Ok(held) => return Ok(held),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Fault::io(format!("taking {}", run.folder().display()))(error)),
        }
        if Instant::now() >= until {
            return Err(Fault::Silent(shim_of(run).await));
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// The process that listens at a run's socket.
async fn shim_of(run: &Run) -> Option<u32> {
    let stream = timeout(PATIENCE, UnixStream::connect(run.shim_socket())).await.ok()?.ok()?;
    u32::try_from(stream.peer_cred().ok()?.pid()?).ok()
}

async fn ask(run: &Run, ask: &Ask, time_limit: Duration) -> Result<ShimResponse, Fault> {
    match timeout(time_limit, exchange(run, ask)).await {
        Ok(Ok(line)) => serde_json::from_slice(&line)
            .map_err(|_| Fault::Answer(String::from_utf8_lossy(&line).trim_end().to_owned())),
        Ok(Err(_)) | Err(_) => Err(Fault::Silent(shim_of(run).await)),
    }
}

/// One that begins has its lock before its socket.
async fn connect(run: &Run) -> std::io::Result<UnixStream> {
    let until = Instant::now() + BEGINS;
    loop {
        match UnixStream::connect(run.shim_socket()).await {
            Err(_) if Instant::now() < until => sleep(Duration::from_millis(10)).await,
            done => return done,
        }
    }
}

async fn exchange(run: &Run, ask: &Ask) -> std::io::Result<Vec<u8>> {
    let mut stream = connect(run).await?;
    let mut text = serde_json::to_vec(ask)?;
    text.push(b'\n');
    stream.write_all(&text).await?;
    let mut line = Vec::new();
    BufReader::new(stream).take(ANSWER).read_until(b'\n', &mut line).await?;
    Ok(line)
}
