//! The members of the workspace: what they may use is what Cargo lets them use, and the architecture shows exactly that.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process,
};

use serde_json::{Value, json};

/// Members that take the time and everything random as arguments, and know nothing of the outside.
const PURE: &[&str] = &[
    "model",
    "language",
    "analysis",
    "protocol",
    "placement",
    "domain",
    "traffic",
    "ab-releases",
    "canary-releases",
];

/// What speaks to the outside, or asks for the time or for chance.
const IMPURE: &[&str] = &["tokio", "axum", "sqlx", "reqwest", "tracing", "hyper", "rand"];

/// Libraries of one edge, and who alone may use them.
const ONLY_IN: &[(&str, &[&str])] = &[("sqlx", &["store"]), ("axum", &["http-api", "page"])];

/// A member as its manifest has it.
struct Member {
    description: String,
    /// Other members.
    members: Vec<String>,
    /// Libraries from elsewhere, one of which may be called like a member.
    libraries: Vec<String>,
    /// Libraries and programs that are compiled a second time, as tests.
    built_twice: Vec<String>,
}

/// By the name under which the others use it; the program is "".
fn members() -> BTreeMap<String, Member> {
    let output = process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.map(|package| (short(package["name"].as_str().unwrap()), member(package))).collect()
}

fn member(package: &Value) -> Member {
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    let of_the_program = dependencies.filter(|one| one["kind"].is_null());
    let (inner, outer): (Vec<&Value>, Vec<&Value>) = of_the_program.partition(|one| one["path"].is_string());
    let names = |all: &[&Value]| all.iter().map(|one| short(one["name"].as_str().unwrap())).collect();
    let targets = package["targets"].as_array().unwrap().iter();
    let twice = targets.filter(|target| target["kind"] != json!(["test"]) && target["test"] == true);
    let built_twice = twice.map(|target| target["name"].to_string()).collect();
    let description = package["description"].as_str().unwrap().to_owned();
    Member { description, members: names(&inner), libraries: names(&outer), built_twice }
}

fn short(package: &str) -> String {
    package.strip_prefix("choirmaster").map_or(package, |rest| rest.trim_start_matches('-')).to_owned()
}

/// The table of members, lowest first.
fn table(members: &BTreeMap<String, Member>) -> String {
    let inner = |name: &str| -> Vec<&str> { members[name].members.iter().map(String::as_str).collect() };
    let mut listed: Vec<&str> = Vec::new();
    while listed.len() < members.len() {
        let next = members
            .keys()
            .map(String::as_str)
            .find(|name| !listed.contains(name) && inner(name).iter().all(|used| listed.contains(used)));
        listed.push(next.expect("Cargo refuses circles"));
    }
    let mut table = "| member | what it is | may use |\n|---|---|---|\n".to_owned();
    for name in listed {
        let uses = match inner(name) {
            none if none.is_empty() => "nothing".to_owned(),
            all if all.len() + 1 == members.len() => "everything".to_owned(),
            some => some.join(", "),
        };
        let shown = if name.is_empty() { "the program" } else { name };
        table += &format!("| `{shown}` | {} | {uses} |\n", members[name].description);
    }
    table
}

#[test]
fn the_architecture_shows_the_members_as_cargo_builds_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ARCHITECTURE.md");
    let text = fs::read_to_string(path).unwrap();
    let table = table(&members());
    assert!(text.contains(&table), "src/ARCHITECTURE.md has to contain this table:\n\n{table}");
}

#[test]
fn the_pure_members_know_nothing_of_the_outside() {
    let members = members();
    for name in PURE {
        let impure: Vec<&String> =
            members[*name].libraries.iter().filter(|used| IMPURE.contains(&used.as_str())).collect();
        assert!(impure.is_empty(), "{name} uses {impure:?}");
        for used in &members[*name].members {
            assert!(PURE.contains(&used.as_str()), "{name} uses {used}, which is not pure");
        }
    }
}

#[test]
fn only_the_adapters_use_the_libraries_of_their_edge() {
    let members = members();
    for (library, homes) in ONLY_IN {
        let using = members.iter().filter(|(_, member)| member.libraries.iter().any(|used| used == library));
        let using: Vec<&str> = using.map(|(name, _)| name.as_str()).collect();
        assert_eq!(using, *homes, "{library}");
    }
}

#[test]
fn nothing_is_built_a_second_time_as_its_own_tests() {
    for (name, member) in members() {
        assert!(member.built_twice.is_empty(), "{name} needs `test = false` for {:?}", member.built_twice);
    }
}

#[test]
fn no_test_stands_where_it_would_never_run() {
    let mut found = Vec::new();
    find_tests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.is_empty(), "tests belong into the folder `tests`; nothing runs those in {found:?}");
}

/// Adds the files with tests in this folder and below.
fn find_tests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            if ["cfg(test)", "#[test]", "::test]", "::test("].iter().any(|mark| text.contains(mark)) {
                found.push(path);
            }
        }
    }
}
