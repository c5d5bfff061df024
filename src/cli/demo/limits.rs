use std::time::Duration;

/// Longest time of one release; something is wrong with one that takes longer.
pub const RELEASE_LIMIT: Duration = Duration::from_mins(2);

/// The children tell once a second what they run; this long is waited for what they should have come to run.
pub const CHILDREN_LIMIT: Duration = Duration::from_secs(30);
