//! Where the processes of one proxy find each other: beside the control socket each serving process has a socket of its own, whose
//! name ends in its pid.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tokio::{net::UnixStream, time::timeout};

use crate::{
    handover::{self, HandoverError, Listening, PATIENCE, Speaking, Word},
    local_http::socket,
};

/// The most bytes of a control socket's path: the system allows 107, and a point and a pid are put behind it.
pub const MAX_PATH: usize = 95;

/// Another serving process of the same proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub pid: u32,
    path: PathBuf,
}

impl Neighbour {
    /// Those that have a door, this process itself left out.
    pub(crate) fn all(control: &Path) -> io::Result<Vec<Self>> {
        let (Some(folder), Some(name)) = (control.parent(), control.file_name()) else {
            return Ok(Vec::new());
        };
        // A name alone is one in the working directory.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let start = format!("{}.", name.to_string_lossy());
        let mut all = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let pid =
                entry.file_name().to_string_lossy().strip_prefix(&start).and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.filter(|&pid| pid != std::process::id()) {
                all.push(Self { pid, path: entry.path() });
            }
        }
        all.sort_by_key(|neighbour| neighbour.pid);
        Ok(all)
    }

    /// Where its door is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A connection to it; none if it is gone, of which then nothing is left.
    pub(crate) async fn connect(&self) -> Result<Option<(Listening, Speaking)>, HandoverError> {
        match timeout(PATIENCE, UnixStream::connect(&self.path)).await {
            Ok(Ok(stream)) if is_ours(&stream)? => Ok(Some(handover::ends(stream))),
            Ok(Ok(_)) => {
                tracing::error!(
                    "{} belongs to another user and is passed over; the folder of the control socket should be this \
                     user's alone",
                    self.path.display()
                );
                Ok(None)
            }
            Ok(Err(error)) => self.connect_failed(error),
            Err(_) => Err(HandoverError::Late),
        }
    }

    /// Which errors say that it is gone.
    fn connect_failed<C>(&self, error: io::Error) -> Result<Option<C>, HandoverError> {
        match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&self.path);
                Ok(None)
            }
            // The door was closed while this connection was in its queue: the process is just ending, and clears up itself.
            _ => Some(HandoverError::from(error)).filter(|error| !error.is_end()).map_or(Ok(None), Err),
        }
    }

    /// Its answer to a word; none if it is gone.
    pub(crate) async fn ask(&self, word: &Word) -> Result<Option<Word>, HandoverError> {
        let Some((mut listening, speaking)) = self.connect().await? else { return Ok(None) };
        Ok(handover::ask((&mut listening, &speaking), word).await?.map(|(answer, _)| answer))
    }
}

/// Whether the other end is a process of the same user, or of root. In a folder of many anybody could have put a socket there.
fn is_ours(stream: &UnixStream) -> io::Result<bool> {
    let user = stream.peer_cred()?.uid();
    Ok(user == 0 || user == rustix::process::geteuid().as_raw())
}

/// The door of this process, which is gone when dropped.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
}

impl Door {
    pub(crate) fn open(control: &Path) -> io::Result<(Self, tokio::net::UnixListener)> {
        let mut path = control.as_os_str().to_owned();
        path.push(format!(".{}", std::process::id()));
        let path = PathBuf::from(path);
        let socket = socket::bind(&path)?;
        socket.set_nonblocking(true)?;
        Ok((Self { path }, tokio::net::UnixListener::from_std(socket)?))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes the door of a process away that is gone, however it ended, and what it had of one that it was about to open. One that
/// answers stays.
pub(crate) fn clear(control: &Path, pid: u32) {
    socket::clear_unfinished(control, pid);
    let mut path = control.as_os_str().to_owned();
    path.push(format!(".{pid}"));
    let answers = std::os::unix::net::UnixStream::connect(&path);
    if answers.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        let _ = fs::remove_file(path);
    }
}
