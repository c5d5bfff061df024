//! From folders on a disk to the canonical zip.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::Strategy;

use super::{
    Archive, ArchiveError, Limits, NamedFolder, Unpacked, check_folders, finish, folders,
    name::{clean, is_litter},
    packed,
    upload::EXECUTABLE,
};

/// Packs the folders that the strategy names, relative to `root`: for `fns/sample_f1` the folder that holds `fns`.
/// Symbolic links below `root` are refused, so that nothing from outside gets in.
pub fn from_folder(root: &Path, strategy: &Strategy, limits: &Limits) -> Result<Archive, ArchiveError> {
    let mut walk = Walk::new(root, limits);
    for (function, version, path) in folders(strategy) {
        if !walk.is_folder(path)? {
            let (function, path) = (function.to_owned(), path.to_owned());
            return Err(ArchiveError::Missing { function, version, path });
        }
        walk.take(path)?;
    }
    finish(&walk.unpacked.files, strategy, |_| true)
}

/// The same of folders that no strategy names.
pub fn folders_from_folder(
    root: &Path,
    wanted: &[NamedFolder],
    limits: &Limits,
) -> Result<Archive, ArchiveError> {
    packed(&read_folders(root, wanted, limits)?.files, Vec::new())
}

/// Reads these folders into memory, by their paths from `root`: what [`folders_from_folder`] packs.
pub fn read_folders(root: &Path, wanted: &[NamedFolder], limits: &Limits) -> Result<Unpacked, ArchiveError> {
    let mut walk = Walk::new(root, limits);
    let mut taken = BTreeSet::new();
    for (function, path) in wanted {
        if !walk.is_folder(path)? {
            let (function, version, path) = (function.clone(), "code", path.clone());
            return Err(ArchiveError::Missing { function, version, path });
        }
        if taken.insert(path) {
            walk.take(path)?;
        }
    }
    check_folders(&walk.unpacked.files, wanted, |_| true)?;
    Ok(walk.unpacked)
}

/// Reads everything below `root`, by its path from there, into memory. Symbolic links are refused.
pub fn read_folder(root: &Path, limits: &Limits) -> Result<Unpacked, ArchiveError> {
    let mut walk = Walk::new(root, limits);
    walk.take("")?;
    Ok(walk.unpacked)
}

struct Walk<'a> {
    root: &'a Path,
    limits: &'a Limits,
    unpacked: Unpacked,
    entries: usize,
    bytes: u64,
    /// Paths of files by their lower-case form.
    seen: HashMap<String, String>,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Path, limits: &'a Limits) -> Self {
        Self { root, limits, unpacked: Unpacked::default(), entries: 0, bytes: 0, seen: HashMap::new() }
    }

    /// Whether a named folder is there, reached without a link.
    fn is_folder(&self, path: &str) -> Result<bool, ArchiveError> {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            let part = &path[..end];
            match fs::symlink_metadata(self.root.join(part)) {
                Ok(found) if found.is_symlink() => return Err(ArchiveError::Link { path: part.to_owned() }),
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                Err(source) => return Err(ArchiveError::Io { path: part.to_owned(), source }),
            }
        }
        Ok(true)
    }

    /// Takes everything below a folder; a stack instead of recursion, as depth is the disk's choice.
    fn take(&mut self, folder: &str) -> Result<(), ArchiveError> {
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            let failed = |source| ArchiveError::Io { path: folder.clone(), source };
            for entry in fs::read_dir(self.root.join(&folder)).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name();
                let before: &[u8] = if folder.is_empty() { b"" } else { b"/" };
                let path = clean(&[folder.as_bytes(), before, name.as_encoded_bytes()].concat())?;
                if is_litter(&path) {
                    continue;
                }
                self.entries += 1;
                if self.entries > self.limits.entries {
                    let (count, max) = (self.entries, self.limits.entries);
                    return Err(ArchiveError::TooManyEntries { count, max });
                }
                let kind = entry.file_type().map_err(failed)?;
                if kind.is_symlink() {
                    return Err(ArchiveError::Link { path });
                } else if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() {
                    self.read(&path, &entry.path())?;
                } else {
                    return Err(ArchiveError::Special { path });
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, path: &str, place: &PathBuf) -> Result<(), ArchiveError> {
        // Functions may share a folder.
        if self.unpacked.files.contains_key(path) {
            return Ok(());
        }
        if let Some(other) = self.seen.insert(path.to_lowercase(), path.to_owned()) {
            return Err(ArchiveError::Case { path: path.to_owned(), other });
        }
        let failed = |source| ArchiveError::Io { path: path.to_owned(), source };
        let rest = self.limits.unpacked_bytes.saturating_sub(self.bytes);
        let most = self.limits.file_bytes.min(rest);
        let mut content = Vec::new();
        // The size of a file may change while it is read: count what comes.
        let mode = fs::File::open(place)
            .and_then(|file| {
                let mode = mode(&file)?;
                file.take(most.saturating_add(1)).read_to_end(&mut content)?;
                Ok(mode)
            })
            .map_err(failed)?;
        if content.len() as u64 > most {
            return Err(if most == self.limits.file_bytes {
                ArchiveError::FileTooLarge { path: path.to_owned(), max: most }
            } else {
                ArchiveError::TooLarge { max: self.limits.unpacked_bytes }
            });
        }
        self.bytes += content.len() as u64;
        if mode & EXECUTABLE != 0 {
            self.unpacked.programs.insert(path.to_owned());
        }
        self.unpacked.files.insert(path.to_owned(), content);
        Ok(())
    }
}

/// Who may do what with a file.
fn mode(file: &fs::File) -> std::io::Result<u32> {
    Ok(file.metadata()?.permissions().mode())
}
