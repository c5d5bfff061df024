//! An operator of an agent has something else served than what the release left there.

use super::read::Report;
use crate::{
    children::{Deployment, Variant},
    release::{assignment::Step, decide::walk::Walk, summary::Summary},
};

/// Whether a report says so. Twice it changes nothing more, nor once a later release changed the function.
pub(super) fn replaced(walk: &mut Walk<'_>, report: &Report<'_>) -> bool {
    let is_of_agent = !walk.assignment.is_whole() && walk.assignment.status.is_over();
    let Some(is_base) = report.summary().is_replaced().filter(|_| is_of_agent) else { return false };
    let function = report.slot.function(walk.strategy());
    let Some(subject) = walk.strategy().subject_key(function) else { return false };
    let release = walk.release.key;
    let runs = walk.state.deployment(walk.child, subject).filter(|runs| runs.release == release);
    let variant = if is_base { Variant::Base } else { Variant::Unknown };
    // What the child runs is not known where its part alone is: then the whole release is brought.
    let is_part = walk.release.is_part;
    if is_part || runs.is_some_and(|runs| runs != Deployment { release, variant }) {
        let why = report.summary().why.as_ref().map(|why| why.text.clone());
        walk.step(Step::Replaced { function: function as u8, is_base, why });
        walk.deployed(function, variant);
    }
    is_part || runs.is_some()
}

/// The same of what an undo left there. That doesn't say of which function, so it is of each that stands at its base version.
pub(super) fn replaced_after_undo(walk: &mut Walk<'_>, summary: &Summary) -> bool {
    let is_told = walk.assignment.is_in_place() && walk.assignment.pending_undo().is_none();
    if !is_told || summary.is_replaced() != Some(false) {
        return false;
    }
    let left = Deployment { release: walk.release.key, variant: Variant::Base };
    for (function, subject) in walk.strategy().subject_keys().enumerate() {
        if walk.state.deployment(walk.child, subject) == Some(left) {
            let why = summary.why.as_ref().map(|why| why.text.clone());
            walk.step(Step::Replaced { function: function as u8, is_base: false, why });
            walk.deployed(function, Variant::Unknown);
        }
    }
    true
}
