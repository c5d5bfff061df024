//! What Cargo is asked for when the program is built, and by which names the log can be filtered.

use std::{collections::BTreeSet, fs, process};

use serde_json::Value;

use crate::source::{document_pages, repository};

fn packages() -> Vec<Value> {
    let output = process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(repository())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn the_program_has_the_same_features_and_binaries() {
    let packages = packages();
    let program = packages.iter().find(|package| package["name"] == "choirmaster").unwrap();
    let features: Vec<&String> = program["features"].as_object().unwrap().keys().collect();
    assert_eq!(features, ["agent", "aws", "default", "manager", "wasm"]);
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
    let programs = targets.filter(|target| target["kind"][0] == "bin");
    let programs: BTreeSet<&str> = programs.map(|target| target["name"].as_str().unwrap()).collect();
    assert_eq!(programs.into_iter().collect::<Vec<_>>(), ["choirmaster", "choirmaster-shim"]);
}

/// A member's name begins the targets of what it logs, as `agent::drive`.
#[test]
fn members_by_whose_names_logs_are_filtered_exist() {
    let packages = packages();
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
    let libraries: BTreeSet<&str> = targets.map(|target| target["name"].as_str().unwrap()).collect();
    let mut texts = vec![super::command_line::help_of_all()];
    texts.extend(document_pages());
    let files = fs::read_dir(repository().join("config")).unwrap();
    texts.extend(files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()));
    let filters: Vec<&str> = texts
        .iter()
        .flat_map(|text| text.match_indices("info,").map(|(at, found)| &text[at + found.len()..]))
        .filter_map(|rest| rest.split_once("=debug").map(|(filter, _)| filter))
        .filter(|filter| filter.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'))
        .collect();
    assert!(filters.len() >= 6, "{filters:?}");
    for filter in filters {
        assert!(libraries.contains(filter), "nothing logs as {filter}");
    }
}
