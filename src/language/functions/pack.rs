//! Writing the canonical zip.

use std::{
    collections::BTreeSet,
    io::{Cursor, Write as _},
};

use bytes::Bytes;
use zip::{CompressionMethod, DateTime, ZipWriter, result::ZipError, write::SimpleFileOptions};

use super::{ArchiveError, Files};

/// Agents give files the mode of their entry.
pub(super) const FILE_MODE: u32 = 0o644;

const FOLDER_MODE: u32 = 0o755;

/// Deflate's usual compromise. It is fixed, since it is part of what makes the bytes reproducible.
const LEVEL: i64 = 6;

pub(super) fn pack(files: &Files) -> Result<Bytes, ArchiveError> {
    write(files).map(Bytes::from).map_err(|error| ArchiveError::Pack(error.to_string()))
}

fn write(files: &Files) -> Result<Vec<u8>, ZipError> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    // The earliest time a zip can say: the same on every machine and at every hour.
    let options = SimpleFileOptions::default().last_modified_time(DateTime::default());
    let folder = options.compression_method(CompressionMethod::Stored).unix_permissions(FOLDER_MODE);
    let file = options
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .unix_permissions(FILE_MODE);
    let mut made = BTreeSet::new();
    for (path, content) in files {
        for (end, _) in path.match_indices('/') {
            if made.insert(&path[..end]) {
                zip.add_directory(&path[..end], folder)?;
            }
        }
        zip.start_file(path.as_str(), file)?;
        zip.write_all(content)?;
    }
    Ok(zip.finish()?.into_inner())
}
