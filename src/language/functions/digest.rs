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
