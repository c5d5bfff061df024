use std::{future::pending, io};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::net::unix::pipe::Receiver;

/// The end of a process, whoever's child it is.
#[derive(Debug)]
pub(crate) struct ProcessEnd(Receiver);

impl ProcessEnd {
    /// An error of the kind `NotFound`: it is gone.
    pub fn open(pid: u32) -> io::Result<Self> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Err(gone()),
            opened => opened?,
        };
        // Nothing is read from it: it is readable once the process has ended, as a pipe is whose other end is closed.
        Receiver::from_owned_fd_unchecked(process).map(Self)
    }

    /// Waits for it.
    pub async fn wait(&self) {
        if self.0.readable().await.is_err() {
            pending::<()>().await;
        }
    }
}

/// Waits until a process has ended; for ever where the kernel doesn't tell.
pub(crate) async fn wait(pid: u32) {
    match ProcessEnd::open(pid) {
        Ok(process) => process.wait().await,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => pending().await,
    }
}
