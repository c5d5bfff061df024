//! What a manager says of the agents below it.

use super::read::Report;
use crate::release::{assignment::Step, decide::draft::Walk, manager::Agents, summary::Summary};

/// What a manager could not take back counts here, too; the rest of what it says of its agents was said before.
pub(super) fn unconfirmed_below(walk: &mut Walk<'_>, summary: &Summary) {
    let reported = walk.assignment.whole().map(|manager| manager.reported);
    if let Some((reported, said)) = reported.zip(summary.agents) {
        count(walk, Agents { unconfirmed: said.unconfirmed, ..reported });
    }
}

/// Takes in what a manager says of its agents.
pub(super) fn count(walk: &mut Walk<'_>, agents: Agents) {
    if walk.assignment.whole().is_some_and(|manager| manager.reported != agents) {
        walk.step(Step::Counted { agents, recount: None });
    }
}

/// A manager that is done says anew what became of its agents: some were tried again there, or have proven the way back.
/// What was said before and comes late changes nothing.
pub(super) fn recount(walk: &mut Walk<'_>, report: &Report<'_>, number: u32) {
    let assignment = &walk.assignment;
    let Some((manager, agents)) = assignment.whole().zip(report.summary().agents) else {
        return;
    };
    let is_last = report.name.attempt == assignment.named && assignment.status.is_over();
    if is_last && number > manager.recounts {
        walk.step(Step::Counted { agents, recount: Some(number) });
    }
}
