use std::{
    collections::BTreeSet,
    future::pending,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tokio::{net::unix::pipe::Receiver, sync::Notify};

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

    /// Sends it a signal, and no other process that gets its number. One that is gone gets none.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.0, signal) {
            Err(Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    /// Waits for it.
    pub async fn wait(&self) {
        if self.0.readable().await.is_err() {
            pending::<()>().await;
        }
    }
}

/// The ends of processes that were seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessEnds {
    watched: Arc<Mutex<BTreeSet<u32>>>,
    ended: Arc<Notify>,
}

impl ProcessEnds {
    /// From now on the end of this process is heard of, where the kernel tells.
    pub fn watch(&self, pid: u32) {
        if !self.watched().insert(pid) {
            return;
        }
        let all = self.clone();
        tokio::spawn(async move {
            match ProcessEnd::open(pid) {
                Ok(process) => process.wait().await,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return,
            }
            all.watched().remove(&pid);
            all.ended.notify_one();
        });
    }

    /// Waits until one has ended since this was asked last.
    pub async fn next(&self) {
        self.ended.notified().await;
    }

    fn watched(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
