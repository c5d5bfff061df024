//! The English of a release's page.

use super::{count, grouped};

pub const STAGE: &str = "Stage";
pub const ENDS: &str = "Ends";
pub const ENDS_BY_MEASURES: &str = "by what was measured";
pub const ENDS_BY_SIGNAL: &str = "by a signal";
pub const CALLS_TO_NEW: &str = "Calls to the new version";
pub const IN_IT: &str = "Children in it";
pub const WAITS_FOR: &str = "Waits for";
pub const SKIPPED: &str = "skipped";
pub const FAILED: &str = "failed";
pub const ACCEPTED: &str = "accepted before";

pub fn children(number: u64) -> String {
    count(number, "child", "children")
}

/// `2 failed of at most 3`.
pub fn of_at_most(what: &str, counted: u32, most: u32) -> String {
    format!("{} {what} of at most {}", grouped(counted.into()), grouped(most.into()))
}

pub const CHANGES: &str = "Changes";
pub const SUBMITTED: &str = "Submitted";
pub const STARTED: &str = "Started";
pub const ENDED: &str = "Ended";
pub const ATTEMPT: &str = "Attempt";
pub const BY: &str = "by";

/// How many take part, and what is special about some of them.
pub fn take_part(all: u32, unconfirmed: u32, left_out: u32) -> String {
    let mut said = count(all.into(), "takes part", "take part");
    if unconfirmed > 0 {
        said += ". ";
        said += &count(unconfirmed.into(), "has not proven that it runs", "have not proven that they run");
        said += " the base version again";
    }
    if left_out > 0 {
        said += ". ";
        said += &count(left_out.into(), "comes last, because it was", "come last, because they were");
        said += " silent";
    }
    said + "."
}

pub const NOT_BEGUN: &str = "It has not begun.";
pub const DRY_RUN: &str = "without consequence";
pub const EVIDENCE: &str = "What that rests on";

pub fn run(run: u32, runs: u32, looks: u64) -> String {
    format!("Run {run} of {runs}, {} at the data.", count(looks, "look", "looks"))
}
