//! Names of entries: which are safe, and which are litter.

use super::{ArchiveError, MAX_ENTRY_DEPTH, MAX_ENTRY_PATH_BYTES};

/// The path of an entry without `./` in front; refused where it could leave its folder anywhere.
pub(super) fn clean(raw: &[u8]) -> Result<String, ArchiveError> {
    let refuse = |reason| {
        let shown: String = String::from_utf8_lossy(raw).chars().take(MAX_ENTRY_PATH_BYTES).collect();
        Err(ArchiveError::Name { path: shown, reason })
    };
    let Ok(path) = std::str::from_utf8(raw) else { return refuse("is not UTF-8") };
    let path = path.strip_prefix("./").unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.len() > MAX_ENTRY_PATH_BYTES {
        return refuse("is too long");
    }
    if path.starts_with('/') {
        return refuse("is absolute");
    }
    if path.as_bytes().get(1) == Some(&b':') {
        return refuse("has a drive letter");
    }
    if path.contains('\\') {
        return refuse("has a backslash");
    }
    if path.chars().any(char::is_control) {
        return refuse("has a control character");
    }
    if path.split('/').any(|part| part == "..") {
        return refuse("leaves its folder");
    }
    if path.split('/').any(|part| part.is_empty() || part == ".") {
        return refuse("has an empty part");
    }
    if path.split('/').count() > MAX_ENTRY_DEPTH {
        return refuse("is nested too deep");
    }
    Ok(path.to_owned())
}

/// The name of a folder in an archive, without `./` in front and a slash behind; refused where it could be anywhere else.
pub fn safe(path: &str) -> Result<String, ArchiveError> {
    clean(path.as_bytes())
}

/// What file managers leave behind and no function needs.
pub(super) fn is_litter(path: &str) -> bool {
    path.split('/').any(|part| {
        matches!(part, "__MACOSX" | ".DS_Store" | "Thumbs.db" | "desktop.ini") || part.starts_with("._")
    })
}
