//! The content of versions, on disk, by digest.
//!
//! ```text
//! ROOT/DIGEST/…      a version: what its folder held, for nobody else to read
//! ROOT/.new-…        one that is being written; it gets its name when it is whole
//! ROOT/.gone-…       one that is being removed
//! ```
//!
//! Invariants:
//! - what has its name is whole, also after a power loss, and is not changed any more: nothing is replaced, only added and removed;
//! - equal content of equal functions is one version, and two functions never share one, so that each has processes of its own;
//! - nothing that an archive says of itself is believed: names, sizes and kinds are checked as [`language::functions`] checks uploads.
//!
//! One process has such a folder at a time. Everything here reads and writes files, and blocks meanwhile: who is asynchronous calls it
//! where that may be.

mod digest;
mod write;

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use language::functions::{self, ArchiveError, Unpacked};

pub use language::functions::Limits;

use crate::runtime::VersionId;

/// Names of folders that are being written, and being removed, begin so.
const NEW: &str = ".new-";
const GONE: &str = ".gone-";

/// Digits of a version's name here: those of a SHA-256.
const DIGITS: usize = 64;

/// One folder of an archive that is to be a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionFolder {
    /// The name of the function.
    pub function: String,
    /// The folder in the archive, as `fns/sample_f1`.
    pub path: String,
    /// The form that the function has, as the offer calls it; empty where its files say it.
    pub runner: String,
}

/// Why there is no content. All but [`ContentError::Io`] are faults of what was brought along.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("the folder {path:?} of function {function:?} is not in the archive")]
    Missing { function: String, path: String },
    #[error("the folder {0:?} holds no file")]
    Empty(PathBuf),
    #[error("{doing} {}: {source}{}", .path.display(), hint(.source))]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": make room for the content of functions"
        }
        io::ErrorKind::ReadOnlyFilesystem => ": functions can't be kept here",
        io::ErrorKind::PermissionDenied => ": it has to belong to the user that the agent runs as",
        _ => "",
    }
}

impl ContentError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

/// The folder with the content of all versions.
#[derive(Debug, Clone)]
pub struct Content {
    root: PathBuf,
}

impl Content {
    /// Makes the folder, if it isn't there yet, and clears away what a former process left half done.
    pub fn open(root: &Path) -> Result<Self, ContentError> {
        let making = fs::DirBuilder::new().recursive(true).mode(0o700).create(root);
        // One that was there before may be open to others.
        let closed = making.and_then(|()| fs::set_permissions(root, fs::Permissions::from_mode(0o700)));
        closed.map_err(ContentError::io("making", root))?;
        let content = Self { root: root.to_owned() };
        for name in content.names()? {
            if name.starts_with(NEW) || name.starts_with(GONE) {
                clear(&root.join(name))?;
            }
        }
        Ok(content)
    }

    /// Unpacks an archive, of which each wanted folder becomes a version; their names, in the order in which they are wanted. What is
    /// there already is not written again.
    pub fn add_archive(
        &self,
        zip: &Path,
        wanted: &[VersionFolder],
        limits: &Limits,
    ) -> Result<Vec<VersionId>, ContentError> {
        let zip = read(zip, limits.upload_bytes)?;
        let folders = wanted.iter().map(|one| functions::safe(&one.path)).collect::<Result<Vec<_>, _>>()?;
        let is_wanted = |path: &str| folders.iter().any(|folder| below(folder, path).is_some());
        let unpacked = functions::unpack(&zip, is_wanted, limits)?;
        drop(zip);
        wanted.iter().zip(&folders).map(|(wanted, folder)| self.add_part(&unpacked, wanted, folder)).collect()
    }

    fn add_part(
        &self,
        all: &Unpacked,
        wanted: &VersionFolder,
        folder: &str,
    ) -> Result<VersionId, ContentError> {
        let files: BTreeMap<&str, File> = all
            .files
            .iter()
            .filter_map(|(path, bytes)| {
                let is_program = all.programs.contains(path) || is_program(bytes);
                below(folder, path).map(|path| (path, File { bytes, is_program }))
            })
            .collect();
        if files.is_empty() {
            let (function, path) = (wanted.function.clone(), wanted.path.clone());
            return Err(ContentError::Missing { function, path });
        }
        self.add(&wanted.function, &wanted.runner, &files)
    }

    /// Copies a folder of this machine, which becomes a version.
    pub fn add_folder(
        &self,
        folder: &Path,
        function: &str,
        runner: &str,
        limits: &Limits,
    ) -> Result<VersionId, ContentError> {
        let all = functions::read_folder(folder, limits)?;
        let file = |path: &str, bytes| {
            let is_program = all.programs.contains(path) || is_program(bytes);
            File { bytes, is_program }
        };
        let files: BTreeMap<&str, File> =
            all.files.iter().map(|(path, bytes)| (path.as_str(), file(path, bytes))).collect();
        if files.is_empty() {
            return Err(ContentError::Empty(folder.to_owned()));
        }
        self.add(function, runner, &files)
    }

    fn add(
        &self,
        function: &str,
        runner: &str,
        files: &BTreeMap<&str, File>,
    ) -> Result<VersionId, ContentError> {
        let version = digest::of(function, runner, files);
        if !self.has(&version) {
            let made = self.root.join(format!("{NEW}{:016x}", fastrand::u64(..)));
            let named = self.folder(&version);
            let written = write::folder(&made, files)
                .and_then(|()| fs::rename(&made, &named).map_err(ContentError::io("naming", &named)));
            if let Err(error) = written {
                // What is left of it is cleared away when this is opened the next time, at the latest.
                let _ = clear(&made);
                // Somebody else may have added the same meanwhile.
                return if self.has(&version) { Ok(version) } else { Err(error) };
            }
            self.sync()?;
        }
        Ok(version)
    }

    /// Where the content of a version is, if it is there.
    pub fn folder(&self, version: &VersionId) -> PathBuf {
        self.root.join(version.as_str())
    }

    pub fn has(&self, version: &VersionId) -> bool {
        self.folder(version).is_dir()
    }

    /// All versions whose content is here, in order of their names.
    pub fn list(&self) -> Result<Vec<VersionId>, ContentError> {
        let names = self.names()?.into_iter().filter(|name| name.len() == DIGITS);
        let mut all: Vec<VersionId> = names.filter_map(|name| name.parse().ok()).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// Takes the content of a version away. What isn't here is away already.
    pub fn remove(&self, version: &VersionId) -> Result<(), ContentError> {
        let gone = self.root.join(format!("{GONE}{:016x}", fastrand::u64(..)));
        match fs::rename(self.folder(version), &gone) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(ContentError::io("removing", &self.folder(version))(error)),
        }
        // Nobody finds half of it after a power loss.
        self.sync()?;
        clear(&gone)
    }

    fn names(&self) -> Result<Vec<String>, ContentError> {
        let reading = || ContentError::io("reading", &self.root);
        let entries = fs::read_dir(&self.root).map_err(reading())?;
        let mut names = Vec::new();
        for entry in entries {
            // A name that is no text is none of ours.
            names.extend(entry.map_err(reading())?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// Names that were given and taken survive a power loss from here on.
    fn sync(&self) -> Result<(), ContentError> {
        let synced = fs::File::open(&self.root).and_then(|folder| folder.sync_all());
        synced.map_err(ContentError::io("writing", &self.root))
    }
}

/// A file of a version.
struct File<'a> {
    bytes: &'a [u8],
    is_program: bool,
}

/// The path below a folder.
fn below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(folder)?.strip_prefix('/')
}

fn clear(path: &Path) -> Result<(), ContentError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ContentError::io("clearing", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The bytes of a file, of which there are at most so many.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, ContentError> {
    let doing = || ContentError::io("reading", path);
    let file = fs::File::open(path).map_err(doing())?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, most.saturating_add(1)), &mut bytes).map_err(doing())?;
    let len = bytes.len() as u64;
    if len > most {
        return Err(ArchiveError::UploadTooLarge { len, max: most }.into());
    }
    Ok(bytes)
}

/// Whether a file begins as programs do: managers' archives don't say which are.
fn is_program(bytes: &[u8]) -> bool {
    [&b"#!"[..], b"\x7fELF"].iter().any(|magic| bytes.starts_with(magic))
}
