//! Where functions are found, and what an archive of them may hold.

use std::path::PathBuf;

use super::{
    section::{Field, Section},
    value::Bytes,
};
use language::functions;

/// Smallest size of an archive that can be set, in bytes.
const MIN_BYTES: u64 = 1 << 10;

/// Most bytes an archive may be allowed to have, 4 GiB: everything of it is held in memory at least once.
const MAX_ARCHIVE_BYTES: u64 = 4 << 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Functions {
    /// The folder that contains `fns/`.
    pub root: PathBuf,
    pub max_upload: Bytes,
    pub max_entries: usize,
    pub max_file: Bytes,
    pub max_unpacked: Bytes,
    pub max_ratio: u64,
}

impl Default for Functions {
    fn default() -> Self {
        let limits = functions::Limits::default();
        Self {
            root: PathBuf::from("."),
            max_upload: Bytes(limits.upload_bytes),
            max_entries: limits.entries,
            max_file: Bytes(limits.file_bytes),
            max_unpacked: Bytes(limits.unpacked_bytes),
            max_ratio: limits.ratio,
        }
    }
}

impl Section for Functions {
    fn name(&self) -> &'static str {
        "functions"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("root", &mut self.root),
            Field::within("max_upload", &mut self.max_upload, MIN_BYTES, MAX_ARCHIVE_BYTES),
            Field::within("max_entries", &mut self.max_entries, 1, 1_000_000),
            Field::within("max_file", &mut self.max_file, MIN_BYTES, MAX_ARCHIVE_BYTES),
            Field::within("max_unpacked", &mut self.max_unpacked, MIN_BYTES, MAX_ARCHIVE_BYTES),
            Field::within("max_ratio", &mut self.max_ratio, 2, 2_000),
        ]
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        if self.max_file.0 <= self.max_unpacked.0 {
            return Vec::new();
        }
        vec![("max_file", "is more than max_unpacked, the limit of all files together".to_owned())]
    }
}

impl Functions {
    pub fn limits(&self) -> functions::Limits {
        functions::Limits {
            upload_bytes: self.max_upload.0,
            entries: self.max_entries,
            file_bytes: self.max_file.0,
            unpacked_bytes: self.max_unpacked.0,
            ratio: self.max_ratio,
        }
    }
}
