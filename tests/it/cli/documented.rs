//! The configurations that come with the program, beside what it takes.

use std::{collections::BTreeMap, fmt::Debug};

use choirmaster::cli::settings::Configured;

use super::repository;

/// `section.key` and the value of each commented-out key.
fn documented(text: &str) -> BTreeMap<String, String> {
    let mut section = "";
    let mut found = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with([' ', '#'])) {
            section = name;
        } else if let Some((key, value)) = line.strip_prefix("  #").and_then(|rest| rest.split_once(':'))
            && !key.contains(' ')
        {
            found.insert(format!("{section}.{key}"), value.trim().to_owned());
        }
    }
    found
}

/// The file lists every key with its default, sets nothing, and each of its lines sets the default when it is uncommented.
pub fn documents<S: Configured + PartialEq + Debug>() {
    let path = repository().join(S::FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    let defaults: BTreeMap<String, String> =
        S::default().shown().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    assert_eq!(documented(&text), defaults);
    assert_eq!(S::load(Some(&path), [], &[]).unwrap(), S::default());
    let uncommented = tempfile::tempdir().unwrap();
    let file = uncommented.path().join("one.yml");
    let lines = documented(&text).into_iter().map(|(key, value)| {
        let (section, key) = key.split_once('.').unwrap();
        format!("{section}: {{{key}: \"{value}\"}}\n")
    });
    for line in lines {
        std::fs::write(&file, &line).unwrap();
        assert_eq!(S::load(Some(&file), [], &[]).unwrap(), S::default(), "{line}");
    }
}
