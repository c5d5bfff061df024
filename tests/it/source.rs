//! The program's own source, parsed, and its documents, for tests of what stands in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file of the program.
pub struct Source {
    /// From the folder of the repository.
    pub path: PathBuf,
    pub file: syn::File,
}

/// The folder of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A page that users read.
pub struct DocumentPage {
    /// From the folder of the repository.
    pub path: PathBuf,
    pub text: String,
}

/// The README and every page of `docs`, by its path.
pub fn document_pages() -> Vec<DocumentPage> {
    let mut paths = vec![repository().join("README.md")];
    let entries = fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    paths.sort();
    let read = paths.into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        DocumentPage { path: path.strip_prefix(repository()).unwrap().to_owned(), text }
    });
    read.collect()
}

/// Every file with code below `src`, by its path.
pub fn all() -> Vec<Source> {
    let mut paths = Vec::new();
    find(&repository().join("src"), &mut paths);
    paths.sort();
    let parsed = paths.into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Source { path: path.strip_prefix(repository()).unwrap().to_owned(), file }
    });
    parsed.collect()
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
