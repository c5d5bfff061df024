//! The log of what runs on its own.

use tracing_subscriber::EnvFilter;

use super::{
    printable::{Passes, Printable},
    terminal,
};

/// Writes logs to stderr from now on. A level that can't be read counts for nothing: it was checked before.
pub fn start(level: &str, as_json: bool) {
    let filter = EnvFilter::try_new(level).unwrap_or_default();
    let colours = terminal::colours(&std::io::stderr());
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Printable::stderr(if colours { Passes::Drawings } else { Passes::None }))
        .with_ansi(colours)
        // Whoever read them may be gone, which is no reason to end.
        .log_internal_errors(false);
    // A second logger in one process is a test's business; the first one stays.
    let _ = if as_json { logs.json().try_init() } else { logs.try_init() };
}
