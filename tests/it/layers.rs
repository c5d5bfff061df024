//! The arrows between modules point one way. A `use crate::…` that points another way fails here.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Each module with those it may use. Whoever adds an arrow here should know why.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("strategy", &["model"]),
    ("functions", &["strategy"]),
    ("plan", &["model", "strategy"]),
    ("release", &["model", "strategy", "plan", "analysis"]),
    ("analysis", &[]),
    ("store", &[]),
    ("engine", &["model", "strategy", "release", "store", "functions"]),
    ("notify", &["engine", "store"]),
    ("provider", &["model", "strategy"]),
    ("judging", &["model", "strategy", "analysis", "release", "provider", "store", "engine"]),
    ("link", &["model", "release"]),
    ("questions", &["model", "strategy", "plan", "release", "store", "engine", "wire"]),
    (
        "uplink",
        &[
            "model",
            "strategy",
            "functions",
            "release",
            "analysis",
            "store",
            "engine",
            "wire",
            "link",
            "questions",
        ],
    ),
    ("forward", &["model", "strategy", "plan", "wire"]),
    ("wire", &["model", "analysis"]),
    (
        "http",
        &[
            "model",
            "strategy",
            "functions",
            "plan",
            "release",
            "store",
            "engine",
            "forward",
            "wire",
            "questions",
        ],
    ),
    ("fleet", &["model", "analysis", "wire"]),
    ("config", &["model", "strategy", "functions", "release", "store", "engine", "http", "app"]),
    (
        "app",
        &[
            "model",
            "strategy",
            "functions",
            "release",
            "store",
            "engine",
            "notify",
            "http",
            "config",
            "uplink",
            "questions",
            "forward",
            "provider",
            "judging",
        ],
    ),
];

/// What the pure modules must not even know of: they take the time and everything random as an argument.
const IMPURE: &[&str] = &["tokio", "axum", "sqlx", "reqwest", "tracing", "hyper", "rand", "uuid"];
const PURE: &[&str] = &["model", "strategy", "plan", "release", "link", "analysis"];

/// Only these may name a crate that speaks to the outside.
const ONLY_IN: &[(&str, &[&str])] = &[("sqlx", &["store"]), ("axum", &["http", "app"])];

fn files(module: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let single = root.join(format!("{module}.rs"));
    if single.is_file() {
        return vec![single];
    }
    let mut found = Vec::new();
    let mut folders = vec![root.join(module)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The first segments after `crate::` in a file, however the import is written.
fn uses(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = code[at + "crate::".len()..].trim_start();
        match rest.strip_prefix('{') {
            None => found.push(rest),
            Some(group) => found.extend(top_level(group)),
        }
    }
    found
        .iter()
        .map(|path| path.trim_start().split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The members of `a::b, c::{d, e}, f}` at the outermost level.
fn top_level(group: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut start = 0;
    let mut members = Vec::new();
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&group[start..at]);
                return members;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members
}

#[test]
fn every_arrow_between_modules_is_one_that_is_allowed() {
    let mut wrong = Vec::new();
    for (module, allowed) in MAY_USE {
        let files = files(module);
        assert!(!files.is_empty(), "there is no module {module}");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for used in uses(&text) {
                if used != *module && !allowed.contains(&used.as_str()) {
                    wrong.push(format!("{} uses crate::{used}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_of_the_crate_has_its_arrows_listed() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    for module in lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        // The commands may use everything: they are the outermost edge.
        assert!(module == "cli" || MAY_USE.iter().any(|(name, _)| *name == module), "{module} is not listed");
    }
}

/// Whether a crate is named; the end of a longer name is another one.
fn names(text: &str, krate: &str) -> bool {
    let is_whole = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    text.match_indices(&format!("{krate}::")).any(|(at, _)| is_whole(at))
}

#[test]
fn the_pure_modules_know_nothing_of_the_outside() {
    let mut wrong = Vec::new();
    for file in PURE.iter().flat_map(|module| files(module)) {
        let text = fs::read_to_string(&file).unwrap();
        for name in IMPURE {
            if names(&text, name) {
                wrong.push(format!("{} names {name}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_adapters_name_the_crates_of_their_edge() {
    let mut wrong = Vec::new();
    for (name, homes) in ONLY_IN {
        for (module, _) in MAY_USE.iter().filter(|(module, _)| !homes.contains(module)) {
            for file in files(module) {
                if fs::read_to_string(&file).unwrap().contains(&format!("{name}::")) {
                    wrong.push(format!("{} names {name}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_checker_sees_every_way_to_write_an_import() {
    assert_eq!(uses("use crate::model::Now;"), ["model"]);
    assert_eq!(uses("use crate::{\n    model::{A, B},\n    store,\n};"), ["model", "store"]);
    assert_eq!(uses("fn f(x: crate::wire::X) {}"), ["wire"]);
    assert_eq!(uses("// crate::http"), [""; 0]);
    assert!(names("let n = rand::random();", "rand") && !names("Errand::Poll", "rand"));
}
