//! The proxy beside an agent, started where there is none. It is nobody's part: it has a session and a log of its own, so that it goes
//! on when the agent ends, whatever ends that.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use proxy::control::client::ClientError;
use tokio::process::Command;

use crate::{
    settings::StartProxy,
    state_machine::{Trouble, TroubleKind},
};

/// Bytes of its log after which a new one is begun at a start.
const LOG: u64 = 4 * 1024 * 1024;
/// Bytes of the log's end that are shown when it ends by itself.
const TAIL: usize = 2 * 1024;

/// What a supervisor tells this process is none of the proxy's business.
const NOT_ITS: [&str; 4] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET"];

/// Why it could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("its log {path} can't be opened: {source}")]
    Log { path: PathBuf, source: io::Error },
    #[error("{program} can't be called: {source}")]
    Call { program: PathBuf, source: io::Error },
}

/// Starts it. Whether it answers is seen at its control socket; if it ends while this process lives, the log tells so.
///
/// It has to be called within a runtime of tokio.
pub fn start(start: &StartProxy) -> Result<(), ProxyError> {
    let path = start.state.join("proxy.log");
    let opened = open_log(&path).and_then(|log| Ok((log.try_clone()?, log)));
    let (out, errors) = opened.map_err(|source| ProxyError::Log { path: path.clone(), source })?;
    let mut command = Command::new(&start.program);
    for name in NOT_ITS {
        command.env_remove(name);
    }
    let mut child = command
        .args(&start.arguments)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .spawn()
        .map_err(|source| ProxyError::Call { program: start.program.clone(), source })?;
    tracing::info!(pid = child.id(), log = %path.display(), "a proxy is started, and stays when this agent ends");
    // Whoever starts a process has to learn of its end, or it stays in the table of processes.
    tokio::spawn(async move {
        match child.wait().await {
            Ok(status) if status.success() => tracing::info!("the proxy that this agent started has ended"),
            Ok(status) => {
                tracing::error!(%status, "the proxy that this agent started has ended; the end of its log:\n{}", tail(&path));
            }
            Err(error) => {
                tracing::warn!(%error, "how the proxy ended that this agent started can't be learnt");
            }
        }
    });
    Ok(())
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

/// What it means that a proxy didn't do what it was asked.
pub(crate) fn of_proxy(error: &ClientError) -> Trouble {
    let is_refused = matches!(error, ClientError::Refused { status, .. } if (400..500).contains(status));
    let kind = if is_refused { TroubleKind::Refused } else { TroubleKind::Passes };
    Trouble { kind, text: error.to_string() }
}
