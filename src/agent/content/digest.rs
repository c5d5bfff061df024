//! What makes two versions the same.

use std::{collections::BTreeMap, fmt::Write as _};

use sha2::{Digest as _, Sha256};

use super::{DIGITS, File};
use crate::runtime::VersionId;

/// SHA-256 over the function's name, its form and each file in order of the paths: its path, its bytes. Which files are programs
/// plays no part: archives of managers don't say it. Texts and bytes stand behind their length (64-bit little endian), so that no two versions give the same stream.
pub(super) fn of(function: &str, runner: &str, files: &BTreeMap<&str, File>) -> VersionId {
    let mut hash = Sha256::new();
    let text = |hash: &mut Sha256, bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    text(&mut hash, function.as_bytes());
    text(&mut hash, runner.as_bytes());
    for (path, file) in files {
        text(&mut hash, path.as_bytes());
        text(&mut hash, file.bytes);
    }
    let digits = hash.finalize().iter().fold(String::with_capacity(DIGITS), |mut digits, byte| {
        // Writing to a text can't fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    });
    VersionId::of_digits(digits)
}
