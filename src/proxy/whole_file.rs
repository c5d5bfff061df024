//! Files that are whole after a loss of power, as they were before or as they are to be.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Puts these bytes into a file for its owner alone, in place of what it held. Once this returns, they survive a loss of power.
///
/// They are written beside it first, under a name that ends in `.new`: one writer a file.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let written = write(&new, bytes).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        // What is half written would take room where there may be none.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
