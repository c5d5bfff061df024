//! What happens in a folder, as the kernel tells it.
//!
//! On a file system of another machine it tells nothing of what is done there.

use std::{ffi::CStr, io, mem::MaybeUninit, os::fd::AsFd as _, path::Path};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

use canary_releases::folder::is_manifest;

/// Room for what is told at once, in bytes: some hundred changes.
const ROOM: usize = 16 * 1024;

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A manifest was put there as a whole.
    Placed(String),
    /// One was written, and nobody writes it any more; or a link to one was made.
    Written(String),
    /// One is being written.
    Writing(String),
    Gone(String),
    /// Any file may be another one: some changes were not told, or something was put there that files may lead through.
    Anything,
    /// The folder isn't where it was.
    Away,
}

impl Change {
    fn of(what: ReadFlags, name: Option<&CStr>) -> Option<Self> {
        let away = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED;
        if what.intersects(away) {
            return Some(Self::Away);
        }
        if what.intersects(ReadFlags::QUEUE_OVERFLOW) {
            return Some(Self::Anything);
        }
        let name = name?.to_string_lossy().into_owned();
        if !is_manifest(&name) || what.intersects(ReadFlags::ISDIR) {
            // Where Kubernetes mounts a config map, all of its files lead through one link, which is replaced.
            return what.intersects(ReadFlags::MOVED_TO).then_some(Self::Anything);
        }
        if what.intersects(ReadFlags::MOVED_TO) {
            Some(Self::Placed(name))
        } else if what.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::CREATE) {
            Some(Self::Written(name))
        } else if what.intersects(ReadFlags::MODIFY) {
            Some(Self::Writing(name))
        } else if what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            Some(Self::Gone(name))
        } else {
            None
        }
    }
}

/// The changes of a folder.
#[derive(Debug)]
pub(super) struct Changes(Receiver);

impl Changes {
    /// From now on those of the folder to which this path leads.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let told = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let what = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&told, folder, what)?;
        // It is no pipe, but is readable as one is: when there is something.
        Receiver::from_owned_fd_unchecked(told).map(Self)
    }

    /// Waits until there may be some.
    pub async fn wait(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// All that there are.
    pub fn take(&self) -> io::Result<Vec<Change>> {
        let mut all = Vec::new();
        // Once so that these are no longer waited for, and once for what the runtime has not noticed yet.
        while is_some(self.0.try_io(|| self.read(&mut all)))? {}
        while is_some(self.read(&mut all))? {}
        Ok(all)
    }

    fn read(&self, all: &mut Vec<Change>) -> io::Result<()> {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut told = inotify::Reader::new(self.0.as_fd(), &mut room);
        loop {
            let one = told.next()?;
            all.extend(Change::of(one.events(), one.file_name()));
            if told.is_buffer_empty() {
                return Ok(());
            }
        }
    }
}

/// Whether there was something.
fn is_some(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
