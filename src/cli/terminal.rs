//! What a terminal can do, and what its owner wants.

use std::io::IsTerminal;

/// States of a release and what they look like: going well, waiting for somebody, gone wrong.
const STATES: [(&str, &str); 12] = [
    ("Running", "36"),
    ("Done", "32"),
    ("Planned", "2"),
    ("Paused", "33"),
    ("AwaitingApproval", "33"),
    ("RollingBack", "33"),
    ("DoneWithFailures", "31"),
    ("RolledBack", "31"),
    ("RolledBackUnproven", "31;1"),
    ("Aborted", "31"),
    ("NoParticipants", "33"),
    ("DoneUntested", "33"),
];

/// A text with the states in it coloured, where `colours` says so. What it says and how wide it is stays the same.
pub fn painted(text: &str, colours: bool) -> String {
    if !colours {
        return text.to_owned();
    }
    let mut painted = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let end =
            rest[start..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest.len(), |len| start + len);
        let word = &rest[start..end];
        painted.push_str(&rest[..start]);
        match STATES.iter().find(|(state, _)| *state == word) {
            Some((_, colour)) => painted.extend(["\x1b[", colour, "m", word, "\x1b[0m"]),
            None => painted.push_str(word),
        }
        rest = &rest[end..];
    }
    painted + rest
}

/// Whether this is a control sequence that [`painted`] makes.
pub fn is_of_painting(sequence: &[u8]) -> bool {
    let code = sequence.strip_prefix(b"\x1b[").and_then(|rest| rest.strip_suffix(b"m"));
    code.is_some_and(|code| code == b"0" || STATES.iter().any(|(_, colour)| colour.as_bytes() == code))
}

/// Columns of a terminal: those that COLUMNS says, or else those that it has. `None`: it is none, and nothing is cut there.
pub fn width(stream: &impl IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let measured = || crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    said.or_else(measured).filter(|columns| *columns > 0)
}

/// Whether to use colours: on a terminal, unless `NO_COLOR` is set to anything (no-color.org) or the terminal is dumb.
pub fn colours(stream: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
