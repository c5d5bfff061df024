//! Writing the content of a version.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use super::{ContentError, File};

/// Makes a folder with these files. When this returns well it is on disk, all but its name.
pub(super) fn folder(made: &Path, files: &BTreeMap<&str, File>) -> Result<(), ContentError> {
    for (path, file) in files {
        let path = made.join(path);
        let folder = path.parent().unwrap_or(made);
        let making = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        making.map_err(ContentError::io("making", folder))?;
        let mode = if file.is_program { 0o700 } else { 0o600 };
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|mut to| to.write_all(file.bytes))
            .map_err(ContentError::io("writing", &path))?;
    }
    // At once for all of it: a function may have thousands of files, each of which would wait for the disk.
    let synced = fs::File::open(made).and_then(|folder| Ok(rustix::fs::syncfs(&folder)?));
    synced.map_err(ContentError::io("writing", made))
}
