//! Texts of strategies: variants of the reference, and the samples of the repository.

use std::path::Path;

use crate::reference::REFERENCE;

/// The reference with one piece replaced.
#[allow(dead_code, reason = "not every target varies it")]
pub fn with(old: &str, new: &str) -> String {
    assert!(REFERENCE.contains(old), "the reference has no {old:?}");
    REFERENCE.replacen(old, new, 1)
}

/// The folder of the whole project, from any member of it.
pub fn repository() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("releases").is_dir()).expect("the project has a folder of samples")
}

/// The samples of the repository: file name and text.
pub fn samples() -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = std::fs::read_dir(repository().join("releases"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    found.sort();
    found
}
