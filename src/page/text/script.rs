//! What the scripts of all pages say.

const OF_SCRIPT: [(&str, &str); 9] = [
    ("live", "Live"),
    ("looking", "Looking again …"),
    ("cut", "Not live: the manager can't be reached. What is shown may be old."),
    ("silent", "Not live: the manager doesn't answer. What is shown may be old."),
    ("over", "Your session is over. What is shown may be old."),
    ("signIn", super::SIGN_IN),
    ("moreChanged", "and % more releases have changed"),
    ("cancel", "Cancel"),
    ("kept", super::KEPT),
];

/// As JSON.
pub fn for_script() -> String {
    super::json(&OF_SCRIPT)
}
