//! Folders that a strategy names and that are not there, each said where it is named.

use std::{collections::BTreeSet, path::Path};

use super::{is_under, paths};
use crate::{Diagnostic, Severity, Strategy, TextPlaces, nearest};

/// Most folders that are compared with a misspelt one.
const MAX_COMPARED: usize = 1_000;

/// The named folders that are not below `root`, which is called `called` to whoever reads it.
pub fn missing_in_folder(
    root: &Path,
    called: &str,
    severity: Severity,
    strategy: &Strategy,
    places: &TextPlaces,
) -> Vec<Diagnostic> {
    let has = |path: &str| root.join(path).is_dir();
    let beside = |path: &str| {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let entries = std::fs::read_dir(root.join(parent)).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir()).take(MAX_COMPARED);
        let prefix = if parent.is_empty() { String::new() } else { format!("{parent}/") };
        folders.map(|entry| format!("{prefix}{}", entry.file_name().to_string_lossy())).collect()
    };
    missing(called, severity, strategy, places, has, beside)
}

/// The named folders of which a zip holds nothing; nothing is said of what is no zip.
pub fn missing_in_zip(zip: &[u8], called: &str, strategy: &Strategy, places: &TextPlaces) -> Vec<Diagnostic> {
    let Some(names) = super::names_in(zip) else { return Vec::new() };
    let folders: BTreeSet<&str> =
        names.iter().flat_map(|name| name.match_indices('/').map(|(end, _)| &name[..end])).collect();
    let folders: Vec<String> = folders.into_iter().take(MAX_COMPARED).map(str::to_owned).collect();
    let has = |path: &str| names.iter().any(|name| is_under(name, path));
    missing(called, Severity::Error, strategy, places, has, |_| folders.clone())
}

fn missing(
    called: &str,
    severity: Severity,
    strategy: &Strategy,
    places: &TextPlaces,
    has: impl Fn(&str) -> bool,
    known: impl Fn(&str) -> Vec<String>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (version, place) in super::versions(strategy, places) {
        if has(&version.path) {
            continue;
        }
        let message = format!("the folder {:?} is not in {called}", version.path);
        // What is meant elsewhere is not meant here.
        let known = known(&version.path);
        let free =
            known.iter().map(String::as_str).filter(|known| paths(strategy).all(|path| path != *known));
        let fix = match nearest(&version.path, free) {
            Some(near) => format!("did you mean {near}?"),
            None => "put it there, or name where the functions are with --functions ZIP|DIR".to_owned(),
        };
        found.push(place.path.fault(severity, "missing-folder", message, fix));
    }
    found
}
