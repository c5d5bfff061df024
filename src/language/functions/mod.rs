//! `fns.zip`: the folders that a strategy names, packed so that a deployed agent can unpack them.
//!
//! Whatever the source (a folder, an upload), the archive is canonical: every folder has its own entry before
//! what it holds, files are sorted, have mode 0644 and one fixed time, and equal content gives equal bytes. Only
//! what lies under the named folders is kept; anything else is dropped, and so are `__MACOSX`, `.DS_Store` and
//! their like. An executable bit is not kept and makes no difference: agents need 0644.
//!
//! Nothing an upload says about itself is believed: bytes are counted while they are unpacked. Nothing is
//! unpacked to a disk. Not here: where archives are stored, and who may send one.

mod digest;
mod folder;
mod form;
mod missing;
mod name;
mod pack;
mod upload;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io::{self, Cursor},
};

use bytes::Bytes;
use model::hex;
use zip::ZipArchive;

use crate::{Function, Run, Strategy, TextPlaces, Version, VersionPlace};

pub use digest::of_version;
pub use folder::{folders_from_folder, from_folder, read_folder, read_folders};
pub use form::{files_of, form, without_form_in_folder, without_form_in_zip};
pub use missing::{missing_in_folder, missing_in_zip};
pub use name::safe;
pub use upload::{folders_from_upload, from_upload, holds_some_of, unpack};

/// Largest upload, in bytes: 32 MiB.
pub const MAX_UPLOAD_BYTES: u64 = 32 * 1024 * 1024;

/// Most entries of an upload, or files of the folders.
pub const MAX_ENTRIES: usize = 5_000;

/// Largest file, in bytes: 32 MiB.
pub const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Largest sum of all files, in bytes: 64 MiB.
pub const MAX_UNPACKED_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes that one compressed byte may become. Deflate can't do more than 1,032; text is around 5.
pub const MAX_RATIO: u64 = 200;

/// Files up to this many bytes may have any ratio: 1 MiB.
pub const RATIO_FREE_BYTES: u64 = 1024 * 1024;

/// Longest path of an entry, in bytes.
pub const MAX_ENTRY_PATH_BYTES: usize = 400;

/// Deepest nesting of an entry, in folders.
pub const MAX_ENTRY_DEPTH: usize = 32;

/// What an archive may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub upload_bytes: u64,
    pub entries: usize,
    pub file_bytes: u64,
    pub unpacked_bytes: u64,
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            upload_bytes: MAX_UPLOAD_BYTES,
            entries: MAX_ENTRIES,
            file_bytes: MAX_FILE_BYTES,
            unpacked_bytes: MAX_UNPACKED_BYTES,
            ratio: MAX_RATIO,
        }
    }
}

/// A canonical `fns.zip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    pub bytes: Bytes,
    /// SHA-256 over path, mode and content of each file in order; how they were compressed plays no part.
    pub digest: [u8; 32],
    /// Of each function the base version and the new one; see [`Version::content`].
    pub contents: Vec<[u64; 2]>,
}

impl Archive {
    /// The digest as text.
    pub fn digest_text(&self) -> String {
        hex::encode(&self.digest)
    }
}

/// Why there is no archive. All but [`ArchiveError::Io`] and [`ArchiveError::Pack`] are the developer's to mend.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the upload has {len} bytes, at most {max} are accepted")]
    UploadTooLarge { len: u64, max: u64 },
    #[error("this is not a readable zip file: {0}")]
    NotAZip(String),
    #[error("{path:?} can't be unpacked: {reason}")]
    Damaged { path: String, reason: String },
    #[error("the name {path:?} {reason}: use relative names with forward slashes")]
    Name { path: String, reason: &'static str },
    #[error("{path:?} is there twice: remove one")]
    Duplicate { path: String },
    #[error(
        "{path:?} and {other:?} differ only in upper and lower case, which some systems can't keep apart"
    )]
    Case { path: String, other: String },
    #[error("two entries have the same name: remove one")]
    DuplicateNames,
    #[error("{path:?} is a file and also a folder")]
    FileAndFolder { path: String },
    #[error("{path:?} is a symbolic link: put the file itself there")]
    Link { path: String },
    #[error("{path:?} is neither a file nor a folder")]
    Special { path: String },
    #[error("{path:?} is encrypted: send it without a password")]
    Encrypted { path: String },
    #[error("{path:?} is compressed by {method}: use deflate, or store it")]
    Compression { path: String, method: String },
    #[error("there are {count} entries, at most {max} are accepted")]
    TooManyEntries { count: usize, max: usize },
    #[error("{path:?} has more than {max} bytes")]
    FileTooLarge { path: String, max: u64 },
    #[error("the files have more than {max} bytes together")]
    TooLarge { max: u64 },
    #[error("{path:?} unpacks to more than {max} times its size")]
    Ratio { path: String, max: u64 },
    #[error("the folder {path:?}, the {version} of function {function:?}, is nowhere to be found")]
    Missing { function: String, version: &'static str, path: String },
    #[error("the folder {path:?}, the {version} of function {function:?}, is empty")]
    Empty { function: String, version: &'static str, path: String },
    #[error("can't read {path:?}: {source}")]
    Io { path: String, source: io::Error },
    #[error("can't write the archive: {0}")]
    Pack(String),
}

/// Contents of files, by path.
type Files = BTreeMap<String, Vec<u8>>;

/// Files of an archive or a folder, in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unpacked {
    /// By path, which is safe: relative, with forward slashes, and leaves no folder.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Those of them that may be executed.
    pub programs: BTreeSet<String>,
}

/// Packs the folders that a strategy names, of what was unpacked of other archives.
///
/// # Errors
///
/// Those of folders that are missing, and of what is more than a submission may have, packed or not.
pub fn from_files(
    unpacked: &Unpacked,
    strategy: &Strategy,
    limits: &Limits,
) -> Result<Archive, ArchiveError> {
    let count = unpacked.files.len();
    if count > limits.entries {
        return Err(ArchiveError::TooManyEntries { count, max: limits.entries });
    }
    let bytes: u64 = unpacked.files.values().map(|content| content.len() as u64).sum();
    if bytes > limits.unpacked_bytes {
        return Err(ArchiveError::TooLarge { max: limits.unpacked_bytes });
    }
    let archive = finish(&unpacked.files, strategy, |_| false)?;
    let len = archive.bytes.len() as u64;
    if len > limits.upload_bytes {
        return Err(ArchiveError::UploadTooLarge { len, max: limits.upload_bytes });
    }
    Ok(archive)
}

/// The folders that a strategy names: function or service, what of it, path.
fn folders(strategy: &Strategy) -> impl Iterator<Item = (&str, &'static str, &str)> {
    let of_functions = strategy.functions.iter().flat_map(|function| {
        let versions = [("base_version", &function.base), ("new_version", &function.new)];
        versions.map(|(which, version)| (function.name.as_str(), which, version.path.as_str()))
    });
    let of_services = strategy.services.iter().flat_map(|service| {
        service.runs.values().map(move |Run { path, .. }| (service.key(), "run", path.as_str()))
    });
    of_functions.chain(of_services)
}

/// The folders that a strategy names.
pub fn paths(strategy: &Strategy) -> impl Iterator<Item = &str> {
    folders(strategy).map(|(_, _, path)| path)
}

/// The versions that a strategy names, each with where that is written.
fn versions<'s>(
    strategy: &'s Strategy,
    places: &'s TextPlaces,
) -> impl Iterator<Item = (&'s Version, &'s VersionPlace)> {
    let of = |(function, places): (&'s Function, &'s [VersionPlace; 2])| {
        [&function.base, &function.new].into_iter().zip(places)
    };
    strategy.functions.iter().zip(&places.versions).flat_map(of)
}

/// The names in a zip, in its order; `None`: it is none.
fn names_in(zip: &[u8]) -> Option<Vec<String>> {
    let archive = ZipArchive::new(Cursor::new(zip)).ok()?;
    Some(archive.file_names().filter_map(|name| name.ok().map(Cow::into_owned)).collect())
}

fn is_under(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The folder of a function, by the function's name: what is packed where no strategy says it.
pub type NamedFolder = (String, String);

/// Checks that each of these folders has a file.
fn check_folders(
    files: &Files,
    wanted: &[NamedFolder],
    seen: impl Fn(&str) -> bool,
) -> Result<(), ArchiveError> {
    let missing = wanted.iter().find(|(_, path)| !files.keys().any(|file| is_under(file, path)));
    if let Some((function, path)) = missing {
        let (function, version, path) = (function.clone(), "code", path.clone());
        return Err(if seen(&path) {
            ArchiveError::Empty { function, version, path }
        } else {
            ArchiveError::Missing { function, version, path }
        });
    }
    Ok(())
}

fn packed(files: &Files, contents: Vec<[u64; 2]>) -> Result<Archive, ArchiveError> {
    Ok(Archive { bytes: pack::pack(files)?, digest: digest::digest(files), contents })
}

/// Checks that every named folder has a file, then packs.
fn finish(files: &Files, strategy: &Strategy, seen: impl Fn(&str) -> bool) -> Result<Archive, ArchiveError> {
    for (function, version, path) in folders(strategy) {
        if !files.keys().any(|file| is_under(file, path)) {
            let (function, path) = (function.to_owned(), path.to_owned());
            return Err(if seen(&path) {
                ArchiveError::Empty { function, version, path }
            } else {
                ArchiveError::Missing { function, version, path }
            });
        }
    }
    let content = |function: &Function, version: &Version| {
        let below = |file: &str| is_under(file, &version.path).then(|| version.path.len() + 1);
        let files = files.iter().filter_map(|(path, bytes)| Some((&path[below(path)?..], &**bytes)));
        let digest = of_version(&function.name, &version.env, files);
        digest.iter().take(8).fold(0, |content, byte| content << 8 | u64::from(*byte))
    };
    packed(files, strategy.functions.iter().map(|f| [content(f, &f.base), content(f, &f.new)]).collect())
}
