//! `src/ARCHITECTURE.md` is short, and what it names is there.

use std::fs;

use crate::source::repository;

const MOST_LINES: usize = 450;

/// Characters of a line, but for rows of tables, which can't be wrapped.
const MOST_COLUMNS: usize = 140;

/// Words of the project's own: whoever reads the code has to learn each.
const MOST_WORDS: usize = 8;

const GLOSSARY: &str = "\n## Glossary\n";

fn architecture() -> String {
    fs::read_to_string(repository().join("src/ARCHITECTURE.md")).unwrap()
}

/// What stands in backticks and is written as a file or a folder.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let ends = [".rs", ".md", ".sql", "/"];
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(move |quoted| {
        !quoted.contains(char::is_whitespace)
            && !quoted.starts_with('/')
            && ends.iter().any(|end| quoted.ends_with(end))
    })
}

#[test]
fn every_path_in_the_architecture_leads_somewhere_from_src_or_from_the_top() {
    let text = architecture();
    let is_missing =
        |path: &&str| ["src", ""].iter().all(|from| !repository().join(from).join(path).exists());
    let missing: Vec<&str> = paths(&text).filter(is_missing).collect();
    assert!(missing.is_empty(), "src/ARCHITECTURE.md names what is not there: {missing:#?}");
}

#[test]
fn the_architecture_is_short_and_so_are_its_lines() {
    let text = architecture();
    let count = text.lines().count();
    assert!(count <= MOST_LINES, "src/ARCHITECTURE.md has {count} lines");
    let is_long = |line: &&str| !line.starts_with('|') && line.chars().count() > MOST_COLUMNS;
    let long: Vec<&str> = text.lines().filter(is_long).collect();
    assert!(long.is_empty(), "too long for src/ARCHITECTURE.md: {long:#?}");
}

#[test]
fn the_glossary_has_few_words() {
    let text = architecture();
    let (_, after) = text.split_once(GLOSSARY).expect("src/ARCHITECTURE.md has a glossary");
    let glossary = after.split("\n## ").next().unwrap_or_default();
    let rows = glossary.lines().filter(|line| line.starts_with('|')).count().saturating_sub(2);
    assert!((1..=MOST_WORDS).contains(&rows), "the glossary of src/ARCHITECTURE.md has {rows} words");
}
