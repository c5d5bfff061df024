//! Which processes are those of a proxy, or of whoever else holds a lock: by what the kernel says of open files and of sockets, so that
//! none is taken for one of them because of its number alone.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    pin::Pin,
};

use tokio::{net::UnixStream, time::timeout};

use crate::{handover::PATIENCE, handover_socket::Neighbour};

/// The numbers of processes, once it was looked.
pub type Pids = Pin<Box<dyn Future<Output = io::Result<Vec<u32>>> + Send>>;

/// The processes that hold the lock of a file: of a control socket it is the one beside it ([`crate::local_http::socket::lock_file`]), which
/// the supervisor of a proxy holds. Those of other users are seen by root alone. Blocks while it looks at what is open on this machine.
///
/// # Errors
///
/// The file, or what is open, can't be looked at.
pub fn holders(file: &Path) -> io::Result<Vec<u32>> {
    let locked = match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        about => about?,
    };
    let all = fs::read_dir("/proc")?.flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(pids.filter(|pid| *pid != std::process::id() && holds(*pid, &locked)).collect())
}

/// Whether a process has this file open, and locked.
fn holds(pid: u32, locked: &fs::Metadata) -> bool {
    let mut open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.any(|entry| {
        let is_it = fs::metadata(entry.path())
            .is_ok_and(|about| (about.dev(), about.ino()) == (locked.dev(), locked.ino()));
        let info = || {
            let number = entry.file_name();
            fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.display())).unwrap_or_default()
        };
        is_it && info().lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
    })
}

/// The processes that take calls under this control socket, or finish what they have: each listens at a socket of its own beside it, as the
/// kernel tells. The sockets of those that are gone are taken away.
///
/// The future's error: the folder can't be read.
pub fn serving(control: PathBuf) -> Pids {
    Box::pin(async move {
        let neighbours = match Neighbour::all(&control) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            all => all?,
        };
        let mut pids = Vec::new();
        for neighbour in neighbours {
            match timeout(PATIENCE, UnixStream::connect(neighbour.path())).await {
                Ok(Ok(stream)) => {
                    let peer = stream.peer_cred()?.pid();
                    pids.extend(
                        peer.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid == neighbour.pid),
                    );
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    let _ = fs::remove_file(neighbour.path());
                }
                // It has gone meanwhile, or is just going.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        Ok(pids)
    })
}
