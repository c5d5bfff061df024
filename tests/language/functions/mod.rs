//! Archives: what is packed, what is refused.

mod folder;
mod properties;
mod upload;

use std::io::{Cursor, Read, Write};

use language::{Strategy, functions::Archive};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// The reference strategy: `fns/sample_f1` and `fns/sample_f2`.
pub fn strategy() -> Strategy {
    crate::load(crate::REFERENCE)
}

/// A zip of plain files; a name with a slash at its end is a folder.
pub fn zip_of(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let options = SimpleFileOptions::default().compression_method(method).unix_permissions(0o755);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        if name.ends_with('/') {
            zip.add_directory(*name, options).unwrap();
        } else {
            zip.start_file(*name, options).unwrap();
            zip.write_all(content).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

/// A sound upload for [`strategy`].
pub fn sound() -> Vec<(&'static str, &'static [u8])> {
    vec![
        ("fns/sample_f1/index.js", b"one"),
        ("fns/sample_f2/index.js", b"two"),
        ("fns/sample_f2/lib/x.js", b"x"),
    ]
}

/// Name, mode and content of each entry, in order.
pub fn entries(archive: &Archive) -> Vec<(String, u32, String)> {
    let mut zip = ZipArchive::new(Cursor::new(&archive.bytes[..])).unwrap();
    (0..zip.len())
        .map(|index| {
            let mut file = zip.by_index(index).unwrap();
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            (file.name().unwrap().into_owned(), file.unix_mode().unwrap(), content)
        })
        .collect()
}
