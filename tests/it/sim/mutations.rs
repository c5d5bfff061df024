//! The table `mutations` beside this file speaks of what is there; `tests/long mutations` says whether the tests find each fault.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// An entry: its fields in order.
type Entry<'t> = Vec<(&'t str, &'t str)>;

fn entries(table: &str) -> Vec<Entry<'_>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if name == "name" {
            entries.push(Vec::new());
        }
        entries.last_mut().expect("an entry begins with its name").push((name, value));
    }
    entries
}

fn field<'t>(entry: &Entry<'t>, wanted: &str) -> Option<&'t str> {
    entry.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
}

/// Where the functions of a module of a test binary may stand.
fn sources(root: &Path, target: &str, modules: &[&str]) -> [PathBuf; 2] {
    let folder = root.join("tests").join(target);
    let whole = modules.iter().fold(folder.clone(), |path, module| path.join(module)).join("mod.rs");
    match modules.split_last() {
        Some((last, before)) => {
            let above = before.iter().fold(folder, |path, module| path.join(module));
            [above.join(format!("{last}.rs")), whole]
        }
        None => [folder.join("main.rs"), whole],
    }
}

/// What is wrong with an entry.
fn faults(root: &Path, entry: &Entry<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    let (file, text) = (field(entry, "file").unwrap_or_default(), field(entry, "text").unwrap_or_default());
    let source = fs::read_to_string(root.join(file)).unwrap_or_default();
    let found = if text.is_empty() { 0 } else { source.matches(text).count() };
    if found != 1 {
        faults.push(format!("its text stands {found} times in {file:?}"));
    }
    if field(entry, "with").is_none_or(|with| with == text) {
        faults.push("it changes nothing".to_owned());
    }
    let named: Vec<&str> =
        entry.iter().filter(|(name, _)| *name == "fails").map(|(_, value)| *value).collect();
    if named.is_empty() {
        faults.push("it names no test".to_owned());
    }
    for named in named {
        let [_, target, test] = named.split(' ').collect::<Vec<_>>()[..] else {
            faults.push(format!("{named:?} is no PACKAGE TARGET TEST"));
            continue;
        };
        let modules: Vec<&str> = test.split("::").collect();
        let (name, modules) = modules.split_last().expect("a name");
        let function = format!("fn {name}(");
        let is_in = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|source| source.contains(&function));
        if !sources(root, target, modules).iter().any(is_in) {
            faults.push(format!("there is no test {test} of {target}"));
        }
    }
    faults
}

#[test]
fn each_mutation_changes_a_text_that_is_there_once_and_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("tests/it/sim/mutations")).unwrap();
    let entries = entries(&table);
    let mut wrong = Vec::new();
    for entry in &entries {
        let name = field(entry, "name").unwrap_or_default();
        wrong.extend(faults(root, entry).into_iter().map(|fault| format!("{name}: {fault}")));
        if entries.iter().filter(|other| field(other, "name") == Some(name)).count() != 1 {
            wrong.push(format!("{name}: its name is taken"));
        }
    }
    assert!(!entries.is_empty() && wrong.is_empty(), "{wrong:#?}");
}
