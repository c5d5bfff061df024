//! Files of a folder of manifests. It may take long where they lie on another machine, so whoever asks is on a thread for that.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use canary_releases::{
    MAX_DOCUMENT_BYTES,
    folder::{Meaning, is_manifest},
};
use model::text::is_unprintable;

/// The most manifests of a folder.
const MAX_FILES: usize = 4_096;

/// Which file or folder it is, whatever leads there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}

/// Another one: the file may say something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    place: Place,
    bytes: u64,
    /// Seconds, and nanoseconds of them.
    modified: (i64, i64),
    /// That of a file which was given an earlier time, too.
    changed: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self {
            place: Place::of(found),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

/// What is in a folder.
#[derive(Debug)]
pub(super) struct Listed {
    pub place: Place,
    /// Manifests by their names; or why it isn't known what they are.
    pub files: BTreeMap<String, Result<Stamp, String>>,
}

/// Looks at a folder, but reads none of its files.
pub(super) fn list(folder: &Path) -> io::Result<Listed> {
    let place = Place::of(&fs::metadata(folder)?);
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_manifest(&name) {
            continue;
        }
        let stamp = match found(&entry.path()) {
            Ok(found) if found.is_dir() => continue,
            Ok(found) => Ok(Stamp::of(&found)),
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => Err(unread(&error)),
        };
        files.insert(name, stamp);
        if files.len() > MAX_FILES {
            return Err(io::Error::other(format!("it has more than {MAX_FILES} manifests")));
        }
    }
    Ok(Listed { place, files })
}

/// A file that was to be read.
#[derive(Debug)]
pub(super) enum Content {
    Gone,
    /// It has changed meanwhile.
    Changing(Stamp),
    /// Without a stamp it could not be read.
    Read {
        stamp: Option<Stamp>,
        said: Result<Meaning, String>,
    },
}

/// Reads a file, unless it isn't any more what it was.
pub(super) fn read(folder: &Path, name: &str, was: Option<Stamp>) -> Content {
    let path = folder.join(name);
    let unread = |said: String| Content::Read { stamp: None, said: Err(said) };
    if name.chars().any(|c| is_unprintable(c) || c == char::REPLACEMENT_CHARACTER) {
        let said = Err("its name has characters that can't be shown: rename it".to_owned());
        return Content::Read { stamp: found(&path).ok().map(|found| Stamp::of(&found)), said };
    }
    let read = found(&path).and_then(|found| {
        // Nothing else is opened: a pipe would keep the reader waiting.
        if found.is_file() {
            return read_file(&path, was);
        }
        let why = if found.is_symlink() { "it is a link that leads nowhere" } else { "it is no file" };
        let said = Err(why.to_owned());
        Ok(if found.is_dir() {
            Content::Gone
        } else {
            Content::Read { stamp: Some(Stamp::of(&found)), said }
        })
    });
    read.unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound => Content::Gone,
        _ => unread(self::unread(&error)),
    })
}

fn read_file(path: &Path, was: Option<Stamp>) -> io::Result<Content> {
    let mut file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    if was.is_some_and(|was| was != stamp) {
        return Ok(Content::Changing(stamp));
    }
    let mut text = Vec::new();
    file.by_ref().take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut text)?;
    let after = Stamp::of(&file.metadata()?);
    if after != stamp {
        return Ok(Content::Changing(after));
    }
    let said = if text.is_empty() {
        Err("it is empty".to_owned())
    } else if text.len() > MAX_DOCUMENT_BYTES {
        Err(format!("a manifest has at most {MAX_DOCUMENT_BYTES} bytes, this one has {}", stamp.bytes))
    } else {
        canary_releases::read(&text).map(Meaning::from).map_err(|fault| fault.to_string())
    };
    Ok(Content::Read { stamp: Some(stamp), said })
}

/// What is under this name. A link that leads nowhere is something, too: what it leads to may be away for a while.
fn found(path: &Path) -> io::Result<Metadata> {
    fs::metadata(path).or_else(|error| match error.kind() {
        ErrorKind::NotFound => fs::symlink_metadata(path),
        _ => Err(error),
    })
}

fn unread(error: &io::Error) -> String {
    format!("it can't be read: {error}")
}
