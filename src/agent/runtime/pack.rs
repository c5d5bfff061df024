use std::{
    fs,
    io::{self, Cursor},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use zip::{ZipWriter, write::SimpleFileOptions};

use super::Fault;

/// A zip of a folder, whose files have no more than so many bytes together. Blocks meanwhile.
pub(crate) fn pack(folder: &Path, room: u64) -> Result<Vec<u8>, Fault> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut used = 0;
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let place = folder.join(&below);
        let about = |path: &Path| Fault::io(format!("packing {}", path.display()));
        let entries = fs::read_dir(&place).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(about(&place))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (source, name) = (entry.path(), below.join(entry.file_name()));
            let kind = entry.file_type().map_err(about(&source))?;
            if kind.is_dir() {
                open.push(name);
                continue;
            }
            // What tinyFaaS unpacks with makes files of links.
            let Some(name) = name.to_str().filter(|_| kind.is_file()) else {
                return Err(Fault::Content(source));
            };
            let mut file = fs::File::open(&source).map_err(about(&source))?;
            let is = file.metadata().map_err(about(&source))?;
            used += is.len();
            if used > room {
                return Err(Fault::Room { needs: used, limit: room });
            }
            let mode = if is.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
            zip.start_file(name, SimpleFileOptions::default().unix_permissions(mode))
                .map_err(io::Error::from)
                .and_then(|()| io::copy(&mut file, &mut zip))
                .map_err(about(&source))?;
        }
    }
    let packed = zip.finish().map_err(io::Error::from);
    Ok(packed.map_err(Fault::io(format!("packing {}", folder.display())))?.into_inner())
}
