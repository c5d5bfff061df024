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

/// The README and every page of `docs`, as text.
pub fn document_pages() -> Vec<String> {
    let entries = fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.chain([repository().join("README.md")]).map(|path| fs::read_to_string(path).unwrap()).collect()
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
