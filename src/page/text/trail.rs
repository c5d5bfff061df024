//! The English of audit trails.

pub const TITLE: &str = "What happened";
pub const EMPTY: &str = "Nothing has happened yet.";
pub const NONE_HERE: &str = "There is nothing on this page.";
pub const WHOLE: &str = "All that happened, page by page";
pub const OLDER: &str = "Older entries";
pub const NEWEST: &str = "The newest entries";
pub const LATER: &str = "Later entries";
pub const FROM_START: &str = "From the start";
pub const VIEWS: &str = "What is shown";
/// Without what single children did.
pub const TOLD: &str = "What concerns the release, the newest first";
pub const STEPS: &str = "With what single children did, as it happened";
