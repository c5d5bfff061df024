//! Where it listens.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::OFlags,
    io::Errno,
    process::{Pid, test_kill_process},
};

/// The most bytes of a socket's path: the system allows 107, and it is made in a folder beside.
pub const MAX_PATH: usize = 95;

/// How many folders may be left beside a socket before it isn't made any more.
const MAX_LEFT: u32 = 100;

/// What a socket is called before it gets its place.
const UNFINISHED: &str = "s";

/// Listens on a path, for the owner alone. Whatever socket is there is taken for one of a process that is gone.
///
/// It gets its mode in a folder that nobody else can enter, and then its place: the mask of a process, which would do the same, is that of
/// all its threads.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(about) if is_socket(about.mode()) => {}
        Ok(_) => {
            let why = format!("{} is there and no socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let closed = closed_folder(path)?;
    let made = closed.join(UNFINISHED);
    let bound = UnixListener::bind(&made).and_then(|bound| {
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        fs::rename(&made, path)?;
        Ok(bound)
    });
    if bound.is_err() {
        let _ = fs::remove_file(&made);
    }
    let _ = fs::remove_dir(&closed);
    bound
}

/// The folders beside a path in which a process makes sockets, by its pid. Names are short because those of sockets have to be.
fn closed_folders(path: &Path, pid: u32) -> impl Iterator<Item = PathBuf> {
    (0..MAX_LEFT).map(move |number| path.with_file_name(format!(".{pid}-{number}")))
}

/// Takes away what a process that is gone has left of sockets that it was about to make beside this path.
pub fn clear_unfinished(path: &Path, pid: u32) {
    for folder in closed_folders(path, pid) {
        let _ = fs::remove_file(folder.join(UNFINISHED));
        let _ = fs::remove_dir(folder);
    }
}

/// The same of all processes that are gone.
fn clear_all_unfinished(path: &Path) -> io::Result<()> {
    // A name alone is one in the working directory.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix('.')?.split_once('-')?.0.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        let as_process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if as_process.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)) {
            clear_unfinished(path, pid);
        }
    }
    Ok(())
}

/// A new one for this process.
fn closed_folder(path: &Path) -> io::Result<PathBuf> {
    for folder in closed_folders(path, std::process::id()) {
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            // Of another thread, or left by a process of this number that was killed just then.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("too many folders are left beside {}", path.display()),
    ))
}

/// Makes the folder of a path, for the owner alone, where it isn't there.
pub fn make_folder_of(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => fs::DirBuilder::new().recursive(true).mode(0o700).create(folder),
        None => Ok(()),
    }
}

/// The lock beside a socket.
#[must_use]
pub fn lock_file(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    PathBuf::from(beside)
}

/// Makes sure that nobody else listens on this path, for as long as the file is open: a lock beside the socket. `None` where somebody
/// has it. What processes that were killed have left beside it is taken away.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600).custom_flags(no_link);
    let file = options.open(lock_file(path))?;
    match file.try_lock() {
        Ok(()) => {
            // In a folder that can't be listed it stays, and harms nobody.
            let _ = clear_all_unfinished(path);
            Ok(Some(file))
        }
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_socket(mode: u32) -> bool {
    const KIND: u32 = 0o170_000;
    const SOCKET: u32 = 0o140_000;
    mode & KIND == SOCKET
}
