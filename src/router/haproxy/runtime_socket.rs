use std::{io, path::Path, time::Duration};

use crate::haproxy::config::{Fault, obeyed};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use super::NAME;
use crate::{RouterError, disk::Disk};

/// The most bytes of an answer: a map of 10,000 entries has less than one MiB.
const LONGEST: usize = 64 * 1024 * 1024;
/// What it says when it waits for a command.
const PROMPT: &[u8] = b"\n> ";
/// What it says for each line that follows a command.
const MORE: &str = "+ ";

/// A connection on which one process answers one command after the other.
#[derive(Debug)]
pub(super) struct Session {
    stream: UnixStream,
    within: Duration,
}

impl Session {
    /// Begins one. Each answer has to be there `within` this time.
    pub(super) async fn open(socket: &Path, within: Duration) -> Result<Self, RouterError> {
        let stream = connect(socket, within).await?;
        let mut session = Self { stream, within };
        session.send(b"prompt\n").await?;
        // Somebody else is told by their first byte.
        let mut came = [0; PROMPT.len()];
        for at in 0..came.len() {
            let read = session.stream.read_exact(&mut came[at..=at]);
            in_time(within, "asking for a prompt", read).await?;
            if came[at] != PROMPT[at] {
                return Err(nonsense(&came[..=at]));
            }
        }
        Ok(session)
    }

    /// What it answers to a question.
    pub(super) async fn ask(&mut self, command: &str) -> Result<String, RouterError> {
        self.send(command.as_bytes()).await?;
        let doing = command.split('\n').next().unwrap_or_default();
        let came = in_time(self.within, doing, until_prompt(&mut self.stream)).await?;
        let text = String::from_utf8(came).map_err(|error| nonsense(error.as_bytes()))?;
        let mut text = text.as_str();
        while let Some(rest) = text.strip_prefix(MORE) {
            text = rest;
        }
        Ok(text.to_owned())
    }

    /// Has it do something.
    pub(super) async fn tell(&mut self, disk: &Disk, command: &str) -> Result<(), RouterError> {
        step(disk)?;
        obeyed(&self.ask(command).await?).map_err(no_sense)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), RouterError> {
        in_time(self.within, "sending a command", self.stream.write_all(bytes)).await
    }
}

/// What a master answers to one command. It doesn't close by itself.
pub(super) async fn ask_master(
    socket: &Path,
    within: Duration,
    command: &str,
) -> Result<String, RouterError> {
    let mut stream = connect(socket, within).await?;
    let with_end = format!("{command}quit\n");
    in_time(within, "sending a command", stream.write_all(with_end.as_bytes())).await?;
    let came = in_time(within, command.trim_end(), async {
        let mut came = Vec::new();
        (&mut stream).take(LONGEST as u64).read_to_end(&mut came).await?;
        Ok(came)
    });
    String::from_utf8(came.await?).map_err(|error| nonsense(error.as_bytes()))
}

async fn connect(socket: &Path, within: Duration) -> Result<UnixStream, RouterError> {
    let doing = format!("connecting to {}", socket.display());
    in_time(within, &doing, UnixStream::connect(socket)).await
}

async fn until_prompt(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut came = Vec::new();
    loop {
        if stream.read_buf(&mut came).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if came.ends_with(PROMPT) {
            // The first of its bytes ends the last line.
            came.truncate(came.len() - PROMPT.len() + 1);
            return Ok(came);
        }
        if came.len() > LONGEST {
            let shown = String::from_utf8_lossy(&came[..SHOWN]).into_owned();
            return Err(io::Error::new(io::ErrorKind::InvalidData, shown));
        }
    }
}

async fn in_time<T>(
    within: Duration,
    doing: &str,
    done: impl Future<Output = io::Result<T>>,
) -> Result<T, RouterError> {
    match timeout(within, done).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(nonsense(error.to_string().as_bytes()))
        }
        Ok(Err(source)) => Err(RouterError::Away { router: NAME, doing: doing.to_owned(), source }),
        Err(_) => Err(RouterError::Silent { router: NAME, within, doing: doing.to_owned() }),
    }
}

/// Whether this process may act still.
pub(super) fn step(disk: &Disk) -> Result<(), RouterError> {
    let away = |source| RouterError::Away { router: NAME, doing: "telling it something".to_owned(), source };
    disk.step().map_err(away)
}

/// The most bytes of nonsense that are shown.
const SHOWN: usize = 200;

fn nonsense(bytes: &[u8]) -> RouterError {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    RouterError::Nonsense { router: NAME, said: String::from_utf8_lossy(shown).into_owned() }
}

pub(super) fn no_sense(fault: Fault) -> RouterError {
    RouterError::Nonsense { router: NAME, said: fault.0 }
}
