//! The English of the list of releases.

pub const STATE: &str = "State";
pub const RELEASE: &str = "Release";
pub const CHANGES: &str = "Changes";
pub const NOW: &str = "Now";
pub const SUBMITTED: &str = "Submitted";
pub const SINCE: &str = "since";
pub const WAVE: &str = "wave";
pub const STEP: &str = "step";
/// Between so many and of how many.
pub const OF: &str = "of";

/// Orders as the API calls them, and as people do.
pub const ORDERS: [(&str, &str); 8] = [
    ("submitted", "newest first"),
    ("-submitted", "oldest first"),
    ("state", "by state"),
    ("-state", "by state, what is over first"),
    ("name", "by name"),
    ("-name", "by name, backwards"),
    ("progress", "by progress, the least first"),
    ("-progress", "by progress, the most first"),
];
pub const SORTED: &str =
    "In this order are the newest that one look reaches; those before them follow on the next pages.";

/// How releases stand.
pub const PLANNED: &str = "planned";
pub const RUNNING: &str = "running";
pub const PAUSED: &str = "paused";
pub const AWAITING: &str = "waits for approval";
pub const ROLLING_BACK: &str = "is taken back";
pub const DONE: &str = "done";
pub const WITH_FAILURES: &str = "done, with failures";
pub const DONE_UNTESTED: &str = "done, untested";
pub const ROLLED_BACK: &str = "taken back";
pub const UNPROVEN: &str = "taken back, not proven";
pub const ABORTED: &str = "aborted";
pub const NOBODY: &str = "nobody takes part";
