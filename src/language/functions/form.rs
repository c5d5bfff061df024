//! Whether a folder has a form in which anything here could start it: the runtime that a strategy names wants a file in it.
//!
//! Deliberately no more than a warning: who runs the version may know a form of its own, and whether what the file says can be
//! started shows there alone.

use std::{collections::BTreeSet, path::Path};

use crate::{Diagnostic, Severity, Strategy, TextPlaces};

/// The name of a form of functions as it is called here: a number behind it is no part of it (`python3`), and `node` is `nodejs`.
#[must_use]
pub fn form(name: &str) -> &str {
    let bare = name.trim_end_matches(|digit: char| digit.is_ascii_digit() || digit == '.');
    if bare == "node" { "nodejs" } else { bare }
}

/// The files of which a folder of a form holds one; none of a form that isn't known here.
#[must_use]
pub fn files_of(form: &str) -> &'static [&'static str] {
    FORMS.iter().find(|(name, _)| *name == form).map_or(&[], |(_, files)| files)
}

/// What forms are called, and the files of which their folders hold one.
const FORMS: [(&str, &[&str]); 6] = [
    ("nodejs", &["index.js", "package.json"]),
    ("python", &["fn.py"]),
    ("binary", &["fn.sh"]),
    ("program", &["run"]),
    ("wasm", &["fn.wasm"]),
    ("image", &["image"]),
];

/// The named folders below `root` that hold no file by which they could be started.
pub fn without_form_in_folder(root: &Path, strategy: &Strategy, places: &TextPlaces) -> Vec<Diagnostic> {
    without_form(strategy, places, |path| root.join(path).is_dir(), |file| root.join(file).is_file())
}

/// The same of a zip; nothing is said of what is no zip.
pub fn without_form_in_zip(zip: &[u8], strategy: &Strategy, places: &TextPlaces) -> Vec<Diagnostic> {
    let Some(names) = super::names_in(zip) else { return Vec::new() };
    let names: BTreeSet<String> = names.into_iter().collect();
    let has =
        |path: &str| names.range(format!("{path}/")..).next().is_some_and(|name| super::is_under(name, path));
    without_form(strategy, places, has, |file| names.contains(file))
}

fn without_form(
    strategy: &Strategy,
    places: &TextPlaces,
    has: impl Fn(&str) -> bool,
    is_file: impl Fn(&str) -> bool,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (version, place) in super::versions(strategy, places) {
        let name = form(&version.env);
        let files = files_of(name);
        let is_there = |file: &&str| is_file(&format!("{}/{file}", version.path));
        // Of other runtimes nothing is known here.
        if files.is_empty() || !has(&version.path) || files.iter().any(is_there) {
            continue;
        }
        let files = files.join(" or ");
        let message =
            format!("nothing in the folder {:?} can be started as {name}: it has no {files}", version.path);
        let fix = format!("call what it starts with {files}, or name the runtime that the folder is for");
        found.push(place.path.fault(Severity::Warning, "no-form", message, fix));
    }
    found
}
