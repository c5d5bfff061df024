//! What makes two versions the same.

use std::{collections::BTreeMap, fmt::Write as _};

use language::functions;

use super::{DIGITS, File};
use crate::runtime::VersionId;

/// As managers name it, too.
pub(super) fn of(function: &str, runner: &str, files: &BTreeMap<&str, File>) -> VersionId {
    let digest =
        functions::of_version(function, runner, files.iter().map(|(path, file)| (*path, file.bytes)));
    let digits = digest.iter().fold(String::with_capacity(DIGITS), |mut digits, byte| {
        // Writing to a text can't fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    });
    VersionId::of_digits(digits)
}
