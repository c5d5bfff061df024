//! What has come of a download, on disk.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::LinkError;

/// Longest note of what a download is of, in bytes.
const MAX_NOTE_BYTES: u64 = 4 * 1024;

/// A SHA-256 of bytes.
pub(crate) type Sum = [u8; 32];

/// Of what a download is: whoever goes on with it asks for the same.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Note {
    pub offer: String,
    /// The strong entity tag (RFC 9110, 8.8.3), as it was sent.
    pub tag: String,
    /// The digest of the whole, where the manager told it.
    pub sum: Option<Sum>,
}

/// The file of a download, and the two beside it while it is not whole.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    into: PathBuf,
    come: PathBuf,
    note: PathBuf,
}

impl Part {
    pub fn of(into: &Path) -> Self {
        let beside = |end: &str| {
            let mut name = OsString::from(into.as_os_str());
            name.push(end);
            PathBuf::from(name)
        };
        Self { into: into.to_owned(), come: beside(".part"), note: beside(".part.tag") }
    }

    /// How many bytes are there, and of what. Nothing, if it is not known of what they are.
    pub fn kept(&self) -> Option<(u64, Note)> {
        let len = self.come.metadata().ok().filter(fs::Metadata::is_file)?.len();
        let about = self.note.metadata().ok()?;
        if len == 0 || about.len() > MAX_NOTE_BYTES {
            return None;
        }
        Some((len, serde_json::from_slice(&fs::read(&self.note).ok()?).ok()?))
    }

    /// A file for what comes from the beginning; who goes on with it later finds the note, if there is one.
    pub fn begin(&self, note: Option<&Note>) -> Result<fs::File, LinkError> {
        self.forget()?;
        if let Some(note) = note {
            let text = serde_json::to_vec(note).map_err(io::Error::from);
            text.and_then(|text| fs::write(&self.note, text)).map_err(self.failed("keeping"))?;
        }
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.come);
        file.map_err(self.failed("keeping"))
    }

    /// The file, to write behind its end.
    pub fn go_on(&self) -> Result<fs::File, LinkError> {
        fs::OpenOptions::new().append(true).open(&self.come).map_err(self.failed("keeping"))
    }

    /// Takes away what has come.
    pub fn forget(&self) -> Result<(), LinkError> {
        for path in [&self.note, &self.come] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed("clearing")(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// The digest of what has come.
    pub fn sum(&self) -> Result<Sum, LinkError> {
        let mut hash = Sha256::new();
        let read =
            fs::File::open(&self.come).and_then(|mut file| io::copy(&mut file, &mut Hashing(&mut hash)));
        read.map_err(self.failed("reading"))?;
        Ok(hash.finalize().into())
    }

    /// Gives the file its name, for good. Its bytes are on disk already.
    pub fn finish(&self) -> Result<(), LinkError> {
        let folder = self.into.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let named = fs::rename(&self.come, &self.into);
        named.and_then(|()| fs::File::open(folder)?.sync_all()).map_err(self.failed("naming"))?;
        // Without the part it says nothing any more, so that it may as well stay.
        let _ = fs::remove_file(&self.note);
        Ok(())
    }

    pub fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> LinkError {
        let path = self.come.display().to_string();
        move |error| {
            let hint = match error.kind() {
                io::ErrorKind::StorageFull => {
                    ": the disk is full; what has come is kept, make room for the rest"
                }
                io::ErrorKind::QuotaExceeded => {
                    ": the quota is used up; what has come is kept, make room for the rest"
                }
                io::ErrorKind::ReadOnlyFilesystem => ": the disk can't be written to",
                _ => "",
            };
            LinkError::Disk(format!("{doing} the download {path}: {error}{hint}"))
        }
    }
}

/// Writes to a digest.
struct Hashing<'a>(&'a mut Sha256);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
