//! The proxy beside an agent, started where there is none. It is nobody's part: it has a session and a log of its own, so that it goes
//! on when the agent ends, whatever ends that.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use proxy::control::{
    client::{Client, ClientError},
    form::Status,
};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::settings::{ProxySettings, StartProxy};

/// How long a proxy that was started may take to answer.
const STARTS: Duration = Duration::from_secs(20);
/// How often it is asked meanwhile.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of its log after which a new one is begun at a start.
const LOG: u64 = 4 * 1024 * 1024;
/// Bytes of the log's end that are shown where it does not start.
const TAIL: usize = 2 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Nobody answers, and it isn't this agent's to start one.
    #[error("{0}; start one (choirmaster proxy), or set proxy.start")]
    Missing(#[source] ClientError),
    /// Somebody is there and answers nothing that is understood.
    #[error(transparent)]
    Broken(ClientError),
    #[error("the proxy can't be started: {doing}: {source}")]
    Io { doing: String, source: io::Error },
    #[error("the proxy that was started ended at once ({status}); the end of {log}:\n{tail}", log = .log.display())]
    Ended { status: std::process::ExitStatus, log: PathBuf, tail: String },
    #[error("the proxy that was started has not answered within {seconds} s; its log is {log}", seconds = STARTS.as_secs(), log = .log.display())]
    Late { log: PathBuf },
}

/// How the proxy stands; where nobody answers and it may be started, it is, and answers now.
pub async fn ensure(settings: &ProxySettings) -> Result<Status, ProxyError> {
    let client = Client::new(&settings.control);
    match client.get("/status").await {
        Ok(status) => Ok(status),
        Err(error @ ClientError::Unreachable { .. }) => match &settings.start {
            Some(start) => begin(start, &client).await,
            None => Err(ProxyError::Missing(error)),
        },
        Err(error) => Err(ProxyError::Broken(error)),
    }
}

async fn begin(start: &StartProxy, client: &Client) -> Result<Status, ProxyError> {
    let path = start.state.join("proxy.log");
    let doing = |what: String| move |source| ProxyError::Io { doing: what, source };
    let log = open_log(&path).map_err(doing(format!("opening {}", path.display())))?;
    let errors = log.try_clone().map_err(doing(format!("opening {}", path.display())))?;
    let mut child = Command::new(&start.program)
        .args(&start.arguments)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .map_err(doing(format!("calling {}", start.program.display())))?;
    let answered = answers(&mut child, client, &path).await;
    if answered.is_ok() {
        tracing::info!(pid = child.id(), log = %path.display(), "a proxy was started, and stays when this agent ends");
    }
    // Whoever starts a process has to learn of its end, or it stays in the table of processes.
    tokio::spawn(async move {
        let _ = child.wait().await;
    });
    answered
}

async fn answers(child: &mut Child, client: &Client, log: &Path) -> Result<Status, ProxyError> {
    let until = Instant::now() + STARTS;
    while Instant::now() < until {
        match client.get("/status").await {
            Ok(status) => return Ok(status),
            Err(ClientError::Unreachable { .. }) => {}
            Err(error) => return Err(ProxyError::Broken(error)),
        }
        let ended = child.try_wait();
        if let Some(status) =
            ended.map_err(|source| ProxyError::Io { doing: "waiting for it".into(), source })?
        {
            return Err(ProxyError::Ended { status, log: log.to_owned(), tail: tail(log) });
        }
        sleep(LOOK).await;
    }
    Err(ProxyError::Late { log: log.to_owned() })
}

fn open_log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if fs::metadata(path).is_ok_and(|about| about.len() > LOG) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(TAIL)..]).trim().to_owned()
}
