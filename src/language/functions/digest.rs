//! What makes two archives the same.

use sha2::{Digest, Sha256};

use super::{Files, pack::FILE_MODE};

/// SHA-256 over each file in order: lengths (64-bit little endian) before path and content, the mode between,
/// so that no two sets of files give the same stream.
pub(super) fn digest(files: &Files) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (path, content) in files {
        hash.update((path.len() as u64).to_le_bytes());
        hash.update(path.as_bytes());
        hash.update(FILE_MODE.to_le_bytes());
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    hash.finalize().into()
}

/// What makes two versions of functions the same: SHA-256 over the function's name, its form and each file in order of the paths: its
/// path below the version's folder, its bytes. Which files are programs plays no part: archives of managers don't say it. Texts and bytes
/// stand behind their length (64-bit little endian), so that no two versions give the same stream.
pub fn of_version<'f>(
    function: &str,
    form: &str,
    files: impl IntoIterator<Item = (&'f str, &'f [u8])>,
) -> [u8; 32] {
    let mut hash = Sha256::new();
    let text = |hash: &mut Sha256, bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    text(&mut hash, function.as_bytes());
    text(&mut hash, form.as_bytes());
    for (path, bytes) in files {
        text(&mut hash, path.as_bytes());
        text(&mut hash, bytes);
    }
    hash.finalize().into()
}
