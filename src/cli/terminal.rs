//! What a terminal can do, and what its owner wants.

use std::io::IsTerminal;

/// Whether to use colours: on a terminal, unless `NO_COLOR` is set to anything (no-color.org) or the terminal is dumb.
pub fn colours(stream: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
