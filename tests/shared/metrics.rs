//! Names in metrics.

use std::collections::BTreeSet;

/// A line for each family, with its type, and for each name of a sample with its labels.
pub fn names(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("# HELP"));
    let names: BTreeSet<String> = lines
        .map(|line| match (line.strip_prefix("# TYPE "), line.split_once('{')) {
            (Some(family), _) => family.to_owned(),
            (None, Some((name, rest))) => format!("{name}{{{}}}", labels(rest)),
            (None, None) => line.split(' ').next().unwrap_or_default().to_owned(),
        })
        .collect();
    names.into_iter().collect::<Vec<_>>().join("\n")
}

fn labels(rest: &str) -> String {
    let before_values =
        rest.split("=\"").map(|before| before.rsplit(['{', ',', '"']).next().unwrap_or_default());
    before_values.filter(|label| !label.contains(['}', ' '])).collect::<Vec<_>>().join(", ")
}
