//! From an uploaded zip to a canonical one.

use std::{
    collections::{BTreeSet, HashMap},
    io::{Cursor, Read, Seek},
};

use zip::{CompressionMethod, ZipArchive, read::ZipFile};

use crate::Strategy;

use super::{
    Archive, ArchiveError, Limits, NamedFolder, RATIO_FREE_BYTES, Unpacked, check_folders, finish, folders,
    is_under,
    name::{clean, is_litter},
    packed,
};

/// The file type bits of a Unix mode, and the two types accepted.
const TYPE_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// The bits of a Unix mode that let somebody execute a file.
pub(super) const EXECUTABLE: u32 = 0o111;

/// Repacks an upload. Every name in it must be safe, also of what is dropped; only what is kept is unpacked.
pub fn from_upload(zip: &[u8], strategy: &Strategy, limits: &Limits) -> Result<Archive, ArchiveError> {
    let is_wanted = |path: &str| folders(strategy).any(|(_, _, folder)| is_under(path, folder));
    let kept = unpack_some(zip, is_wanted, limits)?;
    finish(&kept.unpacked.files, strategy, |folder| kept.seen.contains_key(&folder.to_lowercase()))
}

/// The same of folders that no strategy names.
pub fn folders_from_upload(
    zip: &[u8],
    wanted: &[NamedFolder],
    limits: &Limits,
) -> Result<Archive, ArchiveError> {
    let is_wanted = |path: &str| wanted.iter().any(|(_, folder)| is_under(path, folder));
    let kept = unpack_some(zip, is_wanted, limits)?;
    check_folders(&kept.unpacked.files, wanted, |folder| kept.seen.contains_key(&folder.to_lowercase()))?;
    packed(&kept.unpacked.files, Vec::new())
}

/// Unpacks those files of a zip that are wanted, into memory. Every name in it must be safe, also of what is not wanted.
pub fn unpack(
    zip: &[u8],
    is_wanted: impl Fn(&str) -> bool,
    limits: &Limits,
) -> Result<Unpacked, ArchiveError> {
    Ok(unpack_some(zip, is_wanted, limits)?.unpacked)
}

fn unpack_some(
    zip: &[u8],
    is_wanted: impl Fn(&str) -> bool,
    limits: &Limits,
) -> Result<KeptFiles, ArchiveError> {
    let len = zip.len() as u64;
    if len > limits.upload_bytes {
        return Err(ArchiveError::UploadTooLarge { len, max: limits.upload_bytes });
    }
    let mut archive =
        ZipArchive::new(Cursor::new(zip)).map_err(|error| ArchiveError::NotAZip(error.to_string()))?;
    if archive.len() > limits.entries {
        return Err(ArchiveError::TooManyEntries { count: archive.len(), max: limits.entries });
    }
    let mut kept = KeptFiles::default();
    // The crate keeps one of several entries with the same name; which one, others may see differently.
    let twice = archive.has_duplicate_names();
    for index in 0..archive.len() {
        let Entry { path, is_folder, is_program } = admit(&archive, index)?;
        if is_litter(&path) {
            continue;
        }
        kept.note(&path, is_folder)?;
        if !is_folder && is_wanted(&path) {
            let content = unpack_file(&mut archive, index, &path, kept.bytes, limits)?;
            kept.bytes += content.len() as u64;
            if is_program {
                kept.unpacked.programs.insert(path.clone());
            }
            kept.unpacked.files.insert(path, content);
        }
    }
    if twice {
        return Err(ArchiveError::DuplicateNames);
    }
    kept.no_file_is_a_folder()?;
    Ok(kept)
}

/// Whether a zip has anything in one of the folders that the strategy names; what is no zip has nothing.
pub fn holds_some_of(zip: impl Read + Seek, strategy: &Strategy) -> bool {
    let Ok(archive) = ZipArchive::new(zip) else { return false };
    let holds = |name: &str| folders(strategy).any(|(_, _, folder)| is_under(name, folder));
    archive.file_names().any(|name| name.is_ok_and(|name| holds(&name)))
}

#[derive(Default)]
struct KeptFiles {
    unpacked: Unpacked,
    bytes: u64,
    /// Every name of the upload, by its lower-case form.
    seen: HashMap<String, String>,
    plain_files: BTreeSet<String>,
}

impl KeptFiles {
    fn note(&mut self, path: &str, is_folder: bool) -> Result<(), ArchiveError> {
        if let Some(other) = self.seen.insert(path.to_lowercase(), path.to_owned()) {
            let path = path.to_owned();
            return Err(if other == path {
                ArchiveError::Duplicate { path }
            } else {
                ArchiveError::Case { path, other }
            });
        }
        if !is_folder {
            self.plain_files.insert(path.to_owned());
        }
        Ok(())
    }

    fn no_file_is_a_folder(&self) -> Result<(), ArchiveError> {
        for path in self.seen.values() {
            for (end, _) in path.match_indices('/') {
                if self.plain_files.contains(&path[..end]) {
                    return Err(ArchiveError::FileAndFolder { path: path[..end].to_owned() });
                }
            }
        }
        Ok(())
    }
}

/// What the directory of a zip says of an entry.
struct Entry {
    /// Safe.
    path: String,
    is_folder: bool,
    /// Whether anybody may execute it.
    is_program: bool,
}

/// What an entry is, from its directory record alone.
fn admit(archive: &ZipArchive<Cursor<&[u8]>>, index: usize) -> Result<Entry, ArchiveError> {
    let entry = archive.by_index_data(index).map_err(|error| ArchiveError::NotAZip(error.to_string()))?;
    let raw = entry.name_raw();
    let path = clean(raw)?;
    let is_folder = raw.ends_with(b"/");
    let mode = entry.unix_mode().unwrap_or(0);
    match mode & TYPE_MASK {
        0 | REGULAR if !entry.is_symlink() => {}
        FOLDER => {
            if !is_folder {
                return Err(ArchiveError::Special { path });
            }
        }
        0 | REGULAR | LINK => return Err(ArchiveError::Link { path }),
        _ => return Err(ArchiveError::Special { path }),
    }
    if entry.encrypted() {
        return Err(ArchiveError::Encrypted { path });
    }
    match entry.compression() {
        CompressionMethod::Stored | CompressionMethod::Deflated => {
            Ok(Entry { path, is_folder, is_program: mode & EXECUTABLE != 0 })
        }
        method => Err(ArchiveError::Compression { path, method: method.to_string() }),
    }
}

/// Unpacks a file, counting what really comes out.
fn unpack_file(
    archive: &mut ZipArchive<Cursor<&[u8]>>,
    index: usize,
    path: &str,
    so_far: u64,
    limits: &Limits,
) -> Result<Vec<u8>, ArchiveError> {
    let damaged = |reason: String| ArchiveError::Damaged { path: path.to_owned(), reason };
    let mut file: ZipFile<'_, _> = archive.by_index(index).map_err(|error| damaged(error.to_string()))?;
    // A size in a header may lie; nothing has more compressed bytes than an upload may have.
    let packed = file.compressed_size().min(limits.upload_bytes).max(1);
    let by_ratio = packed.saturating_mul(limits.ratio).max(RATIO_FREE_BYTES);
    let most = limits.file_bytes.min(limits.unpacked_bytes.saturating_sub(so_far)).min(by_ratio);
    let mut content = Vec::new();
    let read = (&mut file).take(most.saturating_add(1)).read_to_end(&mut content);
    if content.len() as u64 > most {
        let path = path.to_owned();
        return Err(if most == limits.file_bytes {
            ArchiveError::FileTooLarge { path, max: limits.file_bytes }
        } else if most == by_ratio {
            ArchiveError::Ratio { path, max: limits.ratio }
        } else {
            ArchiveError::TooLarge { max: limits.unpacked_bytes }
        });
    }
    read.map_err(|error| damaged(error.to_string()))?;
    Ok(content)
}
