//! The sockets that lines come to.
//!
//! In a unix datagram socket so many wait as the system says where the socket is made, which is 10, however small they are. So routers
//! spread them among several, and one thread takes from all of them.

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

use crate::log_line::{LANES, LONGEST, LogPath};
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, sockopt},
};

use super::Came;

/// Lines are taken so many at a time of one socket, as long as they are there.
const BATCH: usize = 64;

/// Bytes that wait for us at once, where the system allows as many.
const ROOM: usize = 1024 * 1024;

/// Of the thread that receives, where that is allowed; 0 is usual.
const NICE: i32 = -10;

/// The superuser, who may send as anybody.
const SUPERUSER: u32 = 0;

/// All of them.
#[derive(Debug)]
pub struct Sockets(Vec<Socket>);

impl Sockets {
    /// Makes them at the path and beside it, for one user alone. A socket that is there and that nobody reads is taken for one of a
    /// process that is gone.
    pub fn bind(path: &LogPath, sender: Option<u32>) -> io::Result<Self> {
        let lanes = (0..LANES).map(|lane| Socket::bind(Path::new(&path.lane(lane)), sender));
        lanes.collect::<io::Result<_>>().map(Self)
    }

    /// The same sockets for somebody else, who takes nothing away at the end.
    pub fn again(&self) -> io::Result<Self> {
        self.0.iter().map(Socket::again).collect::<io::Result<_>>().map(Self)
    }

    /// Whoever receives stops.
    pub fn end(&self) {
        self.0.iter().for_each(Socket::end);
    }

    /// Hands on each line that comes, until the end.
    pub fn receive(&self, mut each: impl FnMut(&Came<'_>)) {
        // Few lines have room to wait, so this thread is to run before others, as far as it may: it does little for each.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut room = [0; LONGEST + 1];
        loop {
            let mut waiting: Vec<PollFd<'_>> =
                self.0.iter().map(|socket| PollFd::new(&socket.datagrams, PollFlags::IN)).collect();
            match poll(&mut waiting, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return stopped(error),
            }
            // What came before the end is still counted; one that doesn't wait is not told of the end.
            let is_over = self.0.iter().any(|socket| socket.is_ended.load(Ordering::Acquire));
            let ready: Vec<bool> = waiting.iter().map(|one| !one.revents().is_empty()).collect();
            for (socket, _) in self.0.iter().zip(ready).filter(|(_, is_ready)| *is_ready) {
                if let Err(error) = socket.take_some(&mut room, &mut each) {
                    return stopped(error);
                }
            }
            if is_over {
                return;
            }
        }
    }
}

fn stopped(error: rustix::io::Errno) {
    tracing::error!(%error, "lines of a router aren't received any more");
}

#[derive(Debug)]
struct Socket {
    datagrams: UnixDatagram,
    /// Taken away again at the end; none of a copy.
    path: Option<PathBuf>,
    sender: u32,
    is_ended: Arc<AtomicBool>,
}

impl Socket {
    /// It gets its owner and mode in a folder that nobody else can enter, and then its place.
    fn bind(path: &Path, sender: Option<u32>) -> io::Result<Self> {
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
            datagrams: bound?,
            path: Some(path.to_owned()),
            sender: sender.unwrap_or(own),
            is_ended: Arc::default(),
        })
    }

    fn again(&self) -> io::Result<Self> {
        Ok(Self {
            datagrams: self.datagrams.try_clone()?,
            path: None,
            sender: self.sender,
            is_ended: Arc::clone(&self.is_ended),
        })
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(&self.datagrams, Shutdown::Both);
    }

    /// Hands on what waits here, up to a bound, so that others get their turn.
    fn take_some(&self, room: &mut [u8], each: &mut impl FnMut(&Came<'_>)) -> rustix::io::Result<()> {
        for _ in 0..BATCH {
            match self.take(room, RecvFlags::DONTWAIT) {
                Ok((length, is_allowed)) => each(&Came { is_allowed, datagram: &room[..length] }),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// How long it is, and whether who sent it may.
    fn take(&self, room: &mut [u8], flags: RecvFlags) -> rustix::io::Result<(usize, bool)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let came = rustix::net::recvmsg(&self.datagrams, &mut [IoSliceMut::new(room)], &mut control, flags)?;
        let sender = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(who) => Some(who.uid.as_raw()),
            // Descriptors, which are closed.
            _ => None,
        });
        Ok((came.bytes, sender.is_some_and(|user| user == self.sender || user == SUPERUSER)))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}
