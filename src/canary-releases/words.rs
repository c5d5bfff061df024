//! Texts of others within messages: on one line, of bounded length.

use std::fmt::Display;

use model::text::is_unprintable;

/// Longest piece of a text that a message repeats, in characters.
const MAX_QUOTED: usize = 60;

/// The most things that a message counts up.
const MAX_LISTED: usize = 20;

/// Longest message of whoever read a text, in characters.
const MAX_MESSAGE: usize = 300;

/// In quotes, escaped and shortened.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(MAX_QUOTED).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{:?}", format!("{short}{dots}"))
}

/// `1, 2`; of many the first.
pub(super) fn listed<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let mut all = all.into_iter();
    let first: Vec<String> = all.by_ref().take(MAX_LISTED).map(|one| one.to_string()).collect();
    match all.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The first line of a message that may repeat whatever stood in the text.
pub(super) fn one_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or("it can't be read");
    line.chars().take(MAX_MESSAGE).map(|c| if is_unprintable(c) { ' ' } else { c }).collect()
}
