//! How pages are written: short, plain, and with links that lead somewhere.

use std::{collections::BTreeMap, path::Path};

use super::page::{self, Page, Place};
use crate::{anchors::anchor, source::repository};

const README: &str = "README.md";
const INDEX: &str = "docs/README.md";

const MOST_LINES_OF_README: usize = 150;
const MOST_LINES: usize = 300;

/// Characters of a line, but for rows of tables, which can't be wrapped.
const MOST_COLUMNS: usize = 140;

/// What blocks may be. What isn't named here is `text`.
const LANGUAGES: [&str; 21] = [
    "console",
    "diff",
    "dockerfile",
    "go",
    "haproxy",
    "http",
    "ini",
    "javascript",
    "js",
    "json",
    "nginx",
    "promql",
    "python",
    "rust",
    "sh",
    "sql",
    "text",
    "toml",
    "xml",
    "yaml",
    "yml",
];

fn pages() -> impl Iterator<Item = Page> {
    page::all().into_iter().map(|name| Page::read(&name))
}

/// Fails with all that was found.
fn none_of(faults: &[String], what_to_do: &str) {
    assert!(faults.is_empty(), "{what_to_do}\n{}", faults.join("\n"));
}

#[test]
fn pages_are_short_and_so_are_their_lines() {
    let mut faults = Vec::new();
    for page in pages() {
        let most = if page.name == README { MOST_LINES_OF_README } else { MOST_LINES };
        if page.lines.len() > most {
            faults.push(format!("{}: {} lines, at most {most}", page.name, page.lines.len()));
        }
        let is_long = |line: &&page::Line| {
            (line.is_code || !line.text.starts_with('|')) && line.text.chars().count() > MOST_COLUMNS
        };
        let long = page.lines.iter().filter(is_long);
        faults.extend(long.map(|line| format!("{}: longer than {MOST_COLUMNS} characters", line.place)));
    }
    none_of(&faults, "make two pages or lines of one");
}

#[test]
fn each_block_says_what_it_is() {
    let mut faults = Vec::new();
    for page in pages() {
        let strange = page.blocks().filter(|block| !LANGUAGES.contains(&block.language.as_str()));
        faults.extend(strange.map(|block| format!("{}: {:?}", block.place, block.language)));
    }
    none_of(
        &faults,
        "write what the block is behind its fence: `sh` is run, `console` only shown, `yaml` read, `text` is for anything; or add another \
         language to LANGUAGES in tests/it/docs/form.rs",
    );
}

#[test]
fn pages_are_plain_markdown() {
    let mut faults = Vec::new();
    for page in pages() {
        for (place, text) in page.plain_lines() {
            let is_tag = |behind: &str| {
                behind.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!'))
                    && !behind.starts_with("http")
            };
            if text.split('<').skip(1).any(is_tag) {
                faults.push(format!("{place}: {text}"));
            }
        }
    }
    none_of(&faults, "not every forge renders HTML: write it in Markdown, or put it into backticks");
}

/// The anchors of a page.
fn anchors(page: &Page) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let named = page.headings().map(|heading| {
        let anchor = anchor(heading);
        let before = times.entry(anchor.clone()).or_default();
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    });
    named.collect()
}

/// Why a link leads nowhere; `None`: it leads somewhere, or out of the repository.
fn fault_of_link(place: &Place, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let from = Path::new(&place.page);
    let to = if file.is_empty() { from.to_owned() } else { from.with_file_name(file) };
    let path = repository().join(&to);
    if !path.exists() {
        return Some(format!("{place}: there is no {}", to.display()));
    }
    if heading.is_empty() {
        return None;
    }
    let is_there = path.extension().is_some_and(|extension| extension == "md")
        && anchors(&Page::read(&to.display().to_string())).iter().any(|anchor| anchor == heading);
    (!is_there).then(|| format!("{place}: {} has no heading #{heading}", to.display()))
}

#[test]
fn each_link_leads_to_a_file_and_to_a_heading_of_it() {
    let others = page::in_folder("").into_iter().filter(|name| name != README);
    let others = others.map(|name| Page::read(&name));
    let mut faults = Vec::new();
    for page in pages().chain(others) {
        faults.extend(page.links().iter().filter_map(|(place, link)| fault_of_link(place, link)));
    }
    none_of(&faults, "these links lead nowhere");
}

#[test]
fn the_index_lists_every_page() {
    let listed: Vec<String> = Page::read(INDEX).links().into_iter().map(|(_, link)| link).collect();
    let names = page::all().into_iter().filter(|name| name != README && name != INDEX);
    let missing: Vec<String> = names
        .filter(|name| !listed.iter().any(|link| Some(link.as_str()) == name.strip_prefix("docs/")))
        .collect();
    assert!(missing.is_empty(), "{INDEX} doesn't list {missing:?}");
}

#[test]
fn anchors_are_those_that_forges_make_up() {
    for (heading, expected) in [
        ("A release, step by step", "a-release-step-by-step"),
        ("`agent.stop` and more", "agentstop-and-more"),
        ("What it does not do (yet)", "what-it-does-not-do-yet"),
        ("silent_after – how", "silent_after--how"),
    ] {
        assert_eq!(anchor(heading), expected);
    }
}
