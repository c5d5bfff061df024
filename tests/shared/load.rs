//! Texts that have to be sound.

use language::{Strategy, check};

/// The strategy of a text that has no fault.
pub fn load(text: &str) -> Strategy {
    let checked = check(text);
    let faults: Vec<String> = checked.diagnostics.iter().map(|d| d.render("text")).collect();
    checked.strategy.unwrap_or_else(|| panic!("{}", faults.join("\n")))
}
