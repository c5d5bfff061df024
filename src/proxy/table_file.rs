//! The table on disk, from which a proxy that was killed serves again.
//!
//! Invariants: a table is in the file, and the file's name in its folder, before it is in force; what a reader finds is a whole
//! table or, after damage, none. The first line is `choirmaster-table 1 CHECKSUM`, what follows is the table as JSON.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use crate::{form::TableForm, whole_file};

const NAME: &str = "table";
const NAME_OF_DAMAGED: &str = "table.damaged";
const MARK: &str = "choirmaster-table 1";

/// The most bytes that are read.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The folder with the table in it.
#[derive(Debug, Clone)]
pub struct TableFile {
    folder: PathBuf,
}

/// What was found in the folder.
#[derive(Debug)]
pub enum LoadedTable {
    Nothing,
    Table(TableForm),
    /// The file holds no table. It was put aside, under the name that is given, for somebody to look at.
    Damaged {
        why: String,
        aside: PathBuf,
    },
}

impl TableFile {
    /// Takes a folder, which is made for its owner alone where it isn't there.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Reads the table, and puts a file that holds none aside.
    pub fn load(&self) -> io::Result<LoadedTable> {
        let path = self.folder.join(NAME);
        let bytes = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LoadedTable::Nothing),
            Err(error) => return Err(error),
            Ok(about) if about.len() > MAX_BYTES => Err(format!("it has more than {MAX_BYTES} bytes")),
            Ok(_) => Ok(fs::read(&path)?),
        };
        match bytes.and_then(|bytes| read(&bytes)) {
            Ok(table) => Ok(LoadedTable::Table(table)),
            Err(why) => {
                let aside = self.put_aside()?;
                Ok(LoadedTable::Damaged { why, aside })
            }
        }
    }

    /// Puts the file aside, so that it is neither read nor written over.
    pub fn put_aside(&self) -> io::Result<PathBuf> {
        let aside = self.folder.join(NAME_OF_DAMAGED);
        fs::rename(self.folder.join(NAME), &aside)?;
        Ok(aside)
    }

    /// Writes the table. Once this returns, it survives a loss of power.
    pub fn keep(&self, table: &TableForm) -> io::Result<()> {
        let json = serde_json::to_vec(table)?;
        let mut bytes = format!("{MARK} {:08x}\n", checksum(&json)).into_bytes();
        bytes.extend_from_slice(&json);
        whole_file::replace(&self.folder.join(NAME), &bytes)
    }
}

fn read(bytes: &[u8]) -> Result<TableForm, String> {
    let end = memchr::memchr(b'\n', bytes).ok_or("it has no first line")?;
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| "its first line is no text")?;
    let sum = line.strip_prefix(MARK).ok_or("its first line isn't that of a table of this form")?.trim();
    let json = &bytes[end + 1..];
    if format!("{:08x}", checksum(json)) != sum {
        return Err("its checksum isn't that of its content".to_owned());
    }
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

fn checksum(bytes: &[u8]) -> u32 {
    xxhash_rust::xxh32::xxh32(bytes, 0)
}
