//! Files of a router that are ours, each changed in one step.

use std::{
    fs::{self, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::RouterError;

/// Changes files. Everything that a driver does to files, sockets and processes passes [`Disk::step`], so that a test can end it
/// at each: what is there then is what a process leaves that was killed at that instant.
#[derive(Debug)]
pub struct Disk {
    /// Steps that are left; without a bound but in tests.
    left: AtomicU64,
}

impl Default for Disk {
    fn default() -> Self {
        Self { left: AtomicU64::new(u64::MAX) }
    }
}

/// No file of ours that is read has more bytes than this.
const LONGEST: u64 = 256 * 1024 * 1024;

impl Disk {
    /// One on which each step behind the first `steps` fails and does nothing, as if the process had been killed.
    #[must_use]
    pub fn dying_after(steps: u64) -> Self {
        Self { left: AtomicU64::new(steps) }
    }

    /// Has to be asked before anything is done to the outside.
    ///
    /// # Errors
    ///
    /// In tests: the process counts as killed.
    pub fn step(&self) -> io::Result<()> {
        let spent = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
            u64::MAX => Some(left),
            _ => left.checked_sub(1),
        });
        spent.map(|_| ()).map_err(|_| io::Error::other("this process was killed"))
    }

    /// Puts these bytes into a file that everybody may read, in place of what it held. Once this returns, they survive a loss of
    /// power. They are written beside it first, under its name with `.new` behind it: one writer a file.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), RouterError> {
        let new = beside(path, "new");
        let written = self.write(&new, bytes).and_then(|()| self.rename_now(&new, path));
        if written.is_err() && self.step().is_ok() {
            // What is half written would take room where there may be none.
            let _ = fs::remove_file(&new);
        }
        written.and_then(|()| sync_folder_of(path)).map_err(at(path))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename_now(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        fs::rename(from, to)
    }

    /// The same without waiting for a disk: for files that needn't survive a loss of power.
    pub fn replace_in_memory(&self, path: &Path, bytes: &[u8]) -> Result<(), RouterError> {
        let new = beside(path, "new");
        self.step().and_then(|()| fs::write(&new, bytes)).map_err(at(path))?;
        // Whatever this process masks: the router may be another user.
        self.step()
            .and_then(|()| fs::set_permissions(&new, Permissions::from_mode(0o644)))
            .map_err(at(path))?;
        self.rename_now(&new, path).map_err(at(path))
    }

    /// Gives a file or folder another name, without waiting for a disk.
    pub fn rename_in_memory(&self, from: &Path, to: &Path) -> Result<(), RouterError> {
        self.rename_now(from, to).map_err(at(to))
    }

    /// Makes an empty file, if there is none.
    pub fn touch(&self, path: &Path) -> Result<(), RouterError> {
        let open = || OpenOptions::new().create(true).truncate(false).write(true).open(path);
        self.step().and_then(|()| open()).map(drop).map_err(at(path))
    }

    /// Gives a file or folder another name, in one step that survives a loss of power once this returns.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), RouterError> {
        self.rename_now(from, to).and_then(|()| sync_folder_of(to)).map_err(at(to))
    }

    /// Gives a file a second name, unless there is something of that name.
    pub fn link(&self, from: &Path, to: &Path) -> Result<(), RouterError> {
        let linked = self.step().and_then(|()| fs::hard_link(from, to));
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(to)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Takes a file away, if it is there.
    pub fn remove(&self, path: &Path) -> Result<(), RouterError> {
        absent_is_fine(self.step().and_then(|()| fs::remove_file(path))).map_err(at(path))
    }

    /// Makes a folder that everybody may read, and those above it, unless it is there.
    pub fn create_folder(&self, path: &Path) -> Result<(), RouterError> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.create_folder(above)?;
        }
        self.step().and_then(|()| fs::create_dir(path)).map_err(at(path))?;
        self.step().and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755))).map_err(at(path))
    }

    /// Takes a folder away with all that is in it, if it is there.
    pub fn remove_folder(&self, path: &Path) -> Result<(), RouterError> {
        absent_is_fine(self.step().and_then(|()| fs::remove_dir_all(path))).map_err(at(path))
    }
}

/// The whole of a file; none where there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, RouterError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(at(path))?;
    if bytes.len() as u64 > LONGEST {
        return Err(at(path)(io::Error::other("it is too long to be ours")));
    }
    Ok(Some(bytes))
}

/// The names of what is in a folder, in no order; none where there is no such folder.
pub fn names(folder: &Path) -> Result<Vec<String>, RouterError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(at(folder)(error)),
    };
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    entries.map(name).collect::<io::Result<_>>().map_err(at(folder))
}

/// A path with a further ending.
#[must_use]
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// The right to write to a router, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Not only closed: a process that is being started has a copy of each open file until it runs its program, and would have the lock
        // for as long.
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes it, if nobody has it.
    ///
    /// # Errors
    ///
    /// [`RouterError::Locked`] where another process has it.
    pub fn take(path: PathBuf) -> Result<Self, RouterError> {
        let mut options = OpenOptions::new();
        let opened = options.create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = opened.map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(RouterError::Locked { lock: path }),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }
}

/// An error of this file.
pub fn at(path: &Path) -> impl FnOnce(io::Error) -> RouterError {
    move |source| RouterError::File { path: path.to_owned(), source }
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
