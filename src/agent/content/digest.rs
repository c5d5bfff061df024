//! What makes two versions the same.

use std::collections::BTreeMap;

use language::functions;
use model::hex;

use super::File;
use crate::runtime::VersionId;

/// As managers name it, too.
pub(super) fn of(function: &str, runner: &str, files: &BTreeMap<&str, File>) -> VersionId {
    let digest =
        functions::of_version(function, runner, files.iter().map(|(path, file)| (*path, file.bytes)));
    VersionId::of_digits(hex::encode(&digest))
}
