//! The folder of strategies that releases of services may name, beside those that every manager has.

use std::{
    fs,
    path::{Path, PathBuf},
};

use language::{MAX_STRATEGY_BYTES, RolloutTemplates};

/// Most files in the folder.
const MAX_FILES: usize = 256;

/// What can't be taken, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// A file with line and column, or the folder.
    pub place: String,
    pub message: String,
}

/// Adds those of the files `*.yml` and `*.yaml` of a folder, in the order of their names.
///
/// # Errors
///
/// Every fault of every file.
pub fn read(folder: &Path) -> Result<RolloutTemplates, Vec<Unread>> {
    let mut templates = RolloutTemplates::default();
    let mut unread = Vec::new();
    for file in files(folder).map_err(|unread| vec![unread])? {
        match text(&file) {
            Ok(text) => unread.extend(templates.read(&text).into_iter().map(|found| Unread {
                place: format!("{}:{}:{}", file.display(), found.line, found.column),
                message: match found.fix {
                    Some(fix) => format!("{}; {fix}", found.message),
                    None => found.message,
                },
            })),
            Err(message) => unread.push(Unread { place: file.display().to_string(), message }),
        }
    }
    if unread.is_empty() { Ok(templates) } else { Err(unread) }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Unread> {
    let fault = |message: String| Unread { place: folder.display().to_string(), message };
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| fault(format!("can't be read: {error}")))?;
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "yml" || ext == "yaml");
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).filter(is_yaml).collect();
    if files.len() > MAX_FILES {
        return Err(fault(format!("holds {} files, at most {MAX_FILES} are read", files.len())));
    }
    files.sort();
    Ok(files)
}

fn text(file: &Path) -> Result<String, String> {
    let bytes = fs::read(file).map_err(|error| format!("can't be read: {error}"))?;
    if bytes.len() > MAX_STRATEGY_BYTES {
        return Err(format!("has more than {MAX_STRATEGY_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
}
