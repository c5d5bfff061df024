//! Programs that are run beside it.

use std::{ffi::OsStr, io, path::Path, process::Stdio};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
    time::timeout,
};

use super::{Haproxy, NAME};
use crate::RouterError;

/// The most bytes of what a program says that are looked at.
const MOST: u64 = 256 * 1024;
/// The most letters of it that are shown.
const SHOWN: usize = 500;

/// What `HAProxy`'s own check has against these files, the last of which is ours; none where it takes them.
pub(super) async fn check(
    haproxy: &Haproxy,
    main: &[&Path],
    ours: &Path,
) -> Result<Option<String>, RouterError> {
    let mut arguments = vec![OsStr::new("-c")];
    for path in main.iter().chain([&ours]) {
        arguments.extend([OsStr::new("-f"), path.as_os_str()]);
    }
    run(haproxy, &haproxy.settings.program, &arguments).await
}

/// What a program says that ends with another code than 0, in one line; none where it ends with that.
pub(super) async fn run(
    haproxy: &Haproxy,
    program: &Path,
    arguments: &[&OsStr],
) -> Result<Option<String>, RouterError> {
    let not_run = |source| RouterError::Program { program: program.to_owned(), source };
    haproxy.disk.step().map_err(not_run)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(not_run)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let within = haproxy.settings.limits.program;
    let ended = timeout(within, async { tokio::try_join!(child.wait(), said(out), said(err)) }).await;
    let Ok(ended) = ended else {
        let doing = format!("running {}", program.display());
        return Err(RouterError::Silent { router: NAME, within, doing });
    };
    let (status, out, err) = ended.map_err(not_run)?;
    if status.success() {
        return Ok(None);
    }
    let said = in_one_line(&[err, out].concat());
    Ok(Some(if said.is_empty() { format!("{} ended with {status}", program.display()) } else { said }))
}

/// All of it is read, so that the program isn't held up; the beginning is given.
async fn said(from: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let Some(mut from) = from else { return Ok(Vec::new()) };
    let mut said = Vec::new();
    (&mut from).take(MOST).read_to_end(&mut said).await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(said)
}

/// The alarms among what `HAProxy` says, or all where there is none.
fn in_one_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let alarm = |line: &str| {
        let (_, rest) = line.strip_prefix("[ALERT]")?.split_once(':')?;
        Some(rest.trim().trim_start_matches("config :").trim().to_owned())
    };
    let mut lines: Vec<String> = said.lines().filter_map(alarm).collect();
    if lines.is_empty() {
        lines = said.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    }
    let printable = |letter: char| if letter.is_control() { ' ' } else { letter };
    lines.join("; ").chars().map(printable).take(SHOWN).collect()
}
