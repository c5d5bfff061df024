//! The lock beside the file, and the folder they are in.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{StoreError, lease_holder::LeaseHolder};

/// What the store holds (areas, strategies, functions) is for whoever runs the manager.
const OWNERS_FILE: u32 = 0o600;
const OWNERS_FOLDER: u32 = 0o700;

/// The rights of everybody else.
const OTHERS: u32 = 0o077;

/// A standby looks this often whether the lock is free.
const LOCK_POLL: Duration = Duration::from_millis(200);

/// Most of the lock's file that is read: the text of a holder, in bytes.
const MAX_HOLDER_BYTES: u64 = 1024;

/// The lock, as long as this lives. The operating system frees it when the process ends.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Not only closed: a process that is being started has a copy of each open file until it runs its program, and would have the lock
        // for as long.
        let _ = self.file.unlock();
    }
}

impl FileLock {
    /// Takes the lock of the store at `path`, at once or, as a standby, when it is free.
    pub(super) async fn take(path: &Path, holder: &LeaseHolder, wait: bool) -> Result<Self, StoreError> {
        let path = beside(path);
        let mut said = false;
        loop {
            match Self::try_take(&path, holder) {
                Err(StoreError::Held { holder, .. }) if wait => {
                    if !said {
                        tracing::info!(%holder, "standing by: another manager works on this store");
                        said = true;
                    }
                    tokio::time::sleep(LOCK_POLL).await;
                }
                done => return done,
            }
        }
    }

    fn try_take(path: &Path, holder: &LeaseHolder) -> Result<Self, StoreError> {
        let failed = |error| unavailable(path, &error);
        let mut file = private(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                // For people, and for the message another manager gets.
                file.set_len(0).map_err(failed)?;
                file.rewind().map_err(failed)?;
                write!(file, "{holder}").map_err(failed)?;
                Ok(Self { file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                if file.take(MAX_HOLDER_BYTES).read_to_string(&mut text).is_err() || text.is_empty() {
                    "unknown".clone_into(&mut text);
                }
                Err(StoreError::Held { holder: text, retry_after: LOCK_POLL })
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// A file that is its owner's alone, made if it isn't there.
fn private(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(OWNERS_FILE)
        .open(path)?;
    keep_private(&file)?;
    Ok(file)
}

/// Takes from others what they may do with a file, which may have been copied here.
fn keep_private(file: &File) -> std::io::Result<()> {
    let mut permissions = file.metadata()?.permissions();
    if permissions.mode() & OTHERS == 0 {
        return Ok(());
    }
    permissions.set_mode(permissions.mode() & !OTHERS);
    file.set_permissions(permissions)
}

/// Makes the store's file its owner's alone before anything is in it; what SQLite puts beside it has the same rights.
pub(super) fn make_private(path: &Path) -> Result<(), StoreError> {
    private(path).map_err(|error| unavailable(path, &error))?;
    for name in ["-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(name);
        if let Ok(file) = File::open(&beside) {
            keep_private(&file).map_err(|error| unavailable(Path::new(&beside), &error))?;
        }
    }
    Ok(())
}

/// `<file>.lock`.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn unavailable(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {error}", path.display()))
}

/// The one true name of the store's file, so that two names for it have one lock.
pub(super) async fn canonical(path: &Path) -> Result<PathBuf, StoreError> {
    let Some(name) = path.file_name() else {
        return Err(StoreError::Refused(format!("{} does not name a file", path.display())));
    };
    if let Ok(found) = tokio::fs::canonicalize(path).await {
        return Ok(found);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A folder that isn't there yet has only the name it was given.
    Ok(tokio::fs::canonicalize(folder).await.unwrap_or_else(|_| folder.to_owned()).join(name))
}

/// Makes the folder of the store if it isn't there, for its owner alone. One that is there is left as it is.
pub(super) async fn make_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = tokio::fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(OWNERS_FOLDER)
        .create(folder)
        .await
        .map_err(|error| unavailable(folder, &error))?;
    sync_folder(folder).await
}

/// Makes the names in the folder of `path` durable: a new file that has no name after a power loss is lost.
pub(super) async fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let failed = |error| unavailable(folder, &error);
    tokio::fs::File::open(folder).await.map_err(failed)?.sync_all().await.map_err(failed)
}
