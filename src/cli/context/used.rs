//! Which context this process has used: whatever fails says so, or a failure would be taken for that of another manager.

use std::sync::OnceLock;

static USED: OnceLock<String> = OnceLock::new();

/// Commands call one manager, so the first one counts.
pub fn note(name: &str) {
    USED.get_or_init(|| name.to_owned());
}

/// Its name; none where flags and variables say all.
pub fn name() -> Option<&'static str> {
    USED.get().map(String::as_str)
}
