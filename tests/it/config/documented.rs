//! `config/choirmaster.yml` is the documentation, so it must be true.

use std::collections::BTreeMap;

use choirmaster::config::Config;

const TEXT: &str = include_str!("../../../config/choirmaster.yml");

/// `section.key` and the value of each commented-out key.
fn documented() -> BTreeMap<String, String> {
    let mut section = "";
    let mut found = BTreeMap::new();
    for line in TEXT.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with([' ', '#'])) {
            section = name;
        } else if let Some((key, value)) = line
            .strip_prefix("  #")
            .filter(|rest| !rest.starts_with(' '))
            .and_then(|rest| rest.split_once(':'))
        {
            let twice = found.insert(format!("{section}.{key}"), value.trim().to_owned());
            assert_eq!(twice, None, "{section}.{key} is documented twice");
        }
    }
    found
}

#[test]
fn the_documented_file_sets_nothing() {
    let config = Config::from_text(TEXT, "config/choirmaster.yml").unwrap();
    assert_eq!(config.keys(), Config::default().keys());
}

#[test]
fn comments_may_be_of_any_number() {
    let text = TEXT.replace('\n', &format!("\n{}", "  # a remark\n".repeat(200)));
    let config = Config::from_text(&text, "config/choirmaster.yml").unwrap();
    assert_eq!(config.keys(), Config::default().keys());
}

#[test]
fn the_documented_file_lists_every_key_with_its_default() {
    let defaults: BTreeMap<String, String> = Config::default().keys().into_iter().collect();
    assert_eq!(documented(), defaults);
}

#[test]
fn with_every_key_uncommented_the_file_says_the_defaults() {
    let uncommented: String = TEXT
        .lines()
        .map(|line| match line.strip_prefix("  #").filter(|rest| !rest.starts_with(' ')) {
            Some(rest) => format!("  {rest}\n"),
            None => format!("{line}\n"),
        })
        .collect();
    let config = Config::from_text(&uncommented, "uncommented").unwrap();
    assert_eq!(config.keys(), Config::default().keys());
}
