//! The English of shares of calls.

pub const ROUTER: &str = "Router";
pub const SERVICE: &str = "Service";
/// Of a table with a line for each variation at each router.
pub const HEADS: [&str; 8] =
    [ROUTER, "Variation", "Wanted", "Seen", "Measured", "Calls", "Errors", "Healthy targets"];
pub const NO_ROUTER: &str = "No router has it from this release now.";
pub const HISTORY: &str = "How that came about, newest first";
pub const SEEN: &str = "seen";
pub const BY: &str = "by";
pub const NOTHING: &str = "nothing";
pub const LED_BY: &str = "Led by";
pub const KIND: &str = "Kind";
pub const PHASE: &str = "Phase";
pub const SINCE: &str = "since";
pub const TROUBLE: &str = "Trouble";
pub const SERVICES: &str = "Services";
pub const LAST_CALL: &str = "Last call";
pub const REPAIRS: &str = "Repairs in the last hour";
pub const DRIFTS: &str = "Drifts so far";
pub const LEFT_OVER: &str = "left over";

/// What routers do, as the API calls it, and people.
pub const PHASES: [(&str, &str); 7] = [
    ("idle", "idle"),
    ("waiting", "waiting"),
    ("telling", "telling"),
    ("in_force", "in force"),
    ("paused", "paused"),
    ("accepted", "accepted"),
    ("superseded", "superseded"),
];

/// `1 of 2`.
pub fn targets(healthy: Option<u32>, total: u32) -> String {
    healthy.map_or_else(
        || format!("{total}, {}", super::NOT_LOOKED_AT),
        |healthy| format!("{healthy} of {total}"),
    )
}

pub fn more(number: u32) -> String {
    format!("and {} more", super::grouped(number.into()))
}

/// One share, or both ends.
pub fn range(lowest: &str, highest: &str) -> String {
    if lowest == highest { format!("{lowest} %") } else { format!("{lowest} to {highest} %") }
}
