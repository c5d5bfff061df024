//! Where it listens.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    process::umask,
};

/// Listens on a path, for the owner alone. Whatever socket is there is taken for one of a process that is gone.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(about) if is_socket(about.mode()) => fs::remove_file(path)?,
        Ok(_) => {
            let why = format!("{} is there and no socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The mode is there with the socket and not a moment later.
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    bound
}

/// Makes the folder of a path, for the owner alone, where it isn't there.
pub fn make_folder_of(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => fs::DirBuilder::new().recursive(true).mode(0o700).create(folder),
        None => Ok(()),
    }
}

/// Makes sure that nobody else listens on this path, for as long as the file is open: a lock beside the socket. `None` where somebody
/// has it.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600).custom_flags(no_link);
    let file = options.open(PathBuf::from(beside))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_socket(mode: u32) -> bool {
    const KIND: u32 = 0o170_000;
    const SOCKET: u32 = 0o140_000;
    mode & KIND == SOCKET
}
