//! The socket that lines come to.

use std::{
    fs,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::unix::{
        fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _, chown},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, sockopt};
use traffic::line::LONGEST;

use super::Came;

/// Lines are taken so many at a time, as long as they are there.
const BATCH: usize = 256;

/// Bytes that wait for us at once, where the system allows as many.
const ROOM: usize = 1024 * 1024;

/// The superuser, who may send as anybody.
const SUPERUSER: u32 = 0;

#[derive(Debug)]
pub struct Socket {
    socket: UnixDatagram,
    /// Taken away again at the end; none of a copy.
    path: Option<PathBuf>,
    sender: u32,
    /// An empty datagram looks like the end: this tells them apart.
    is_ended: Arc<AtomicBool>,
}

impl Socket {
    /// Makes it at a path, for one user alone. A socket that is there and that nobody reads is taken for one of a process that is gone.
    ///
    /// It gets its owner and mode in a folder that nobody else can enter, and then its place.
    pub fn bind(path: &Path, sender: Option<u32>) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(about) if !about.file_type().is_socket() => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "what is there is no socket"));
            }
            Ok(_) if UnixDatagram::unbound()?.connect(path).is_ok() => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process reads it"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let closed = path.with_file_name(format!(".{}-{:x}", std::process::id(), fastrand::u16(..)));
        fs::DirBuilder::new().mode(0o700).create(&closed)?;
        let made = closed.join("s");
        let bound = UnixDatagram::bind(&made).and_then(|socket| {
            fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
            if let Some(sender) = sender {
                chown(&made, Some(sender), None)?;
            }
            #[cfg(target_os = "linux")]
            sockopt::set_socket_passcred(&socket, true)?;
            // What it can't get it goes without.
            let _ = sockopt::set_socket_recv_buffer_size(&socket, ROOM);
            fs::rename(&made, path)?;
            Ok(socket)
        });
        let _ = fs::remove_file(&made);
        let _ = fs::remove_dir(&closed);
        let own = rustix::process::geteuid().as_raw();
        Ok(Self {
            socket: bound?,
            path: Some(path.to_owned()),
            sender: sender.unwrap_or(own),
            is_ended: Arc::default(),
        })
    }

    /// The same socket for somebody else, who takes nothing away at the end.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Self {
            socket: self.socket.try_clone()?,
            path: None,
            sender: self.sender,
            is_ended: Arc::clone(&self.is_ended),
        })
    }

    /// Whoever receives stops.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Hands on each line that comes, until the end.
    pub fn receive(&self, mut each: impl FnMut(&Came<'_>)) {
        let mut room = [0; LONGEST + 1];
        loop {
            // The first is waited for.
            let mut flags = RecvFlags::empty();
            for _ in 0..BATCH {
                match self.take(&mut room, flags) {
                    Ok(Some((length, is_allowed))) => each(&Came { is_allowed, datagram: &room[..length] }),
                    // The end, or nothing that anybody sent.
                    Ok(None) => return,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(error) => {
                        tracing::error!(%error, "lines of a router aren't received any more");
                        return;
                    }
                }
                flags = RecvFlags::DONTWAIT;
            }
        }
    }

    /// How long it is, and whether who sent it may; none at the end.
    fn take(&self, room: &mut [u8], flags: RecvFlags) -> rustix::io::Result<Option<(usize, bool)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let came = rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(room)], &mut control, flags)?;
        let sender = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(who) => Some(who.uid.as_raw()),
            // Descriptors, which are closed.
            _ => None,
        });
        if came.bytes == 0 && self.is_ended.load(Ordering::Acquire) {
            return Ok(None);
        }
        Ok(Some((came.bytes, sender.is_some_and(|user| user == self.sender || user == SUPERUSER))))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}
