//! Whether a folder has a form in which anything here could start it: the runtime that a strategy names wants a file in it.
//!
//! Deliberately no more than a warning: who runs the version may know a form of its own, and whether what the file says can be
//! started shows there alone.

use std::{collections::BTreeSet, io::Cursor, path::Path};

use zip::ZipArchive;

use crate::{Diagnostic, Severity, Strategy, TextPlaces};

/// What runtimes are called, and the files of which their folders hold one.
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
    let Ok(archive) = ZipArchive::new(Cursor::new(zip)) else { return Vec::new() };
    let names: BTreeSet<String> =
        archive.file_names().filter_map(|name| name.ok().map(std::borrow::Cow::into_owned)).collect();
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
    for (function, places) in strategy.functions.iter().zip(&places.versions) {
        for (version, place) in [&function.base, &function.new].into_iter().zip(places) {
            let bare = version.env.trim_end_matches(|digit: char| digit.is_ascii_digit() || digit == '.');
            let name = if bare == "node" { "nodejs" } else { bare };
            // Of other runtimes nothing is known here.
            let Some((name, files)) = FORMS.iter().find(|(form, _)| *form == name) else { continue };
            let is_there = |file: &str| is_file(&format!("{}/{file}", version.path));
            if !has(&version.path) || files.iter().any(|file| is_there(file)) {
                continue;
            }
            let files = files.join(" or ");
            let message = format!(
                "nothing in the folder {:?} can be started as {name}: it has no {files}",
                version.path
            );
            let fix = format!("call what it starts with {files}, or name the runtime that the folder is for");
            found.push(place.path.fault(Severity::Warning, "no-form", message, fix));
        }
    }
    found
}
