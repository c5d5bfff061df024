//! The English of pages of children.

use super::count;

pub const CHILD: &str = "Child";
pub const STATUS: &str = "Status";
pub const HOW_IT_ENDED: &str = "How it ended";
pub const STAGE: &str = "Stage";
pub const WAVE: &str = "Wave";
pub const WAITS_FOR: &str = "Waits for";
pub const REPORTED: &str = "Reported";
pub const LAST_CALL: &str = "Last call";
pub const CAN_BE_DONE: &str = "What can be done";
pub const NOT_PLANNED: &str = "not planned yet";
pub const DONE: &str = "done";
pub const UNCONFIRMED: &str = "not proven to be back";
pub const ATTEMPT: &str = "attempt";
pub const SO_FAR: &str = "so far";

pub fn reports(number: u64) -> String {
    count(number, "report", "reports")
}

/// `3 succeeded, 1 failed of 12 agents below`.
pub fn agents_below(parts: &[String], all: u64) -> String {
    let all = count(all, "agent", "agents");
    if parts.is_empty() { format!("{all} below") } else { format!("{} of {all} below", parts.join(", ")) }
}

pub const WHAT_IT_IS: &str = "What it is";
pub const NEW_WORK: &str = "New work";
pub const WHERE: &str = "Where";
pub const LABEL: &str = "Label";
pub const LABELS: &str = "Labels";
pub const NOW: &str = "Now";
pub const SILENT_FOR: &str = "Silent for at least";
pub const RUNTIMES: &str = "Runtimes";
pub const KNOWN_SINCE: &str = "Known since";
pub const FUNCTION: &str = "Function";
pub const VERSION: &str = "Version";
pub const PATH: &str = "Path";
pub const BY_RELEASE: &str = "By the release";
pub const SINCE: &str = "Since";
pub const NOT_TOLD: &str = "not told";

pub fn agents(number: u64) -> String {
    count(number, "agent", "agents")
}

pub const NOBODY_WAITS: &str = "Nobody waits for it any more: the release is not under way.";
pub const RETRY_ALL: &str = "The release is not under way: it can be tried again as a whole.";
pub const IS_BACK: &str = "It runs the base version again.";
pub const WENT_WELL: &str = "It ended well: there is nothing to try again.";

/// To how many agents something is done, and where. `agents`: those below a manager; an agent is one.
pub fn reach(agents: Option<u32>, place: Option<&str>) -> String {
    let place = place.map_or_else(|| "its place is not known".to_owned(), |place| format!("at {place}"));
    match agents {
        None => format!("It is 1 agent, {place}."),
        Some(number) => {
            format!("Below it {} in the release, {place}.", count(number.into(), "agent is", "agents are"))
        }
    }
}
