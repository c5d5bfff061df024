//! An operator of an agent has something else served than what the release left there, or that again.

use super::read::Report;
use crate::{
    children::{Deployment, Variant},
    release::{assignment::Step, decide::draft::Walk, summary::Summary},
};

/// Whether a report says so. Twice it changes nothing more, nor once a later release changed the function.
pub(super) fn replaced(walk: &mut Walk<'_>, report: &Report<'_>) -> bool {
    let is_of_agent = !walk.assignment.is_whole() && walk.assignment.status.is_over();
    let Some(variant) = report.summary().wanted_by_operator().filter(|_| is_of_agent) else { return false };
    let function = report.slot.function(walk.strategy());
    let Some(subject) = walk.strategy().subject_key(function) else { return false };
    let release = walk.release.key;
    let runs = walk.state.deployment(walk.child, subject).filter(|runs| runs.release == release);
    // What the child runs is not known where its part alone is: then the whole release is brought.
    let is_part = walk.release.is_part;
    if is_part || runs.is_some_and(|runs| runs != Deployment { release, variant }) {
        replace(walk, function, variant, report.summary());
    }
    is_part || runs.is_some()
}

/// The same of what an undo left there. That doesn't say of which function: something else is at each that stands at its base version,
/// and the base version again where there is but one that it can be about.
pub(super) fn replaced_after_undo(walk: &mut Walk<'_>, summary: &Summary) -> bool {
    let is_told = walk.assignment.is_in_place() && walk.assignment.pending_undo().is_none();
    let Some(variant) = summary.wanted_by_operator().filter(|_| is_told) else { return false };
    let before = match variant {
        Variant::Unknown => Variant::Base,
        Variant::Base | Variant::New => Variant::Unknown,
    };
    let left = Some(Deployment { release: walk.release.key, variant: before });
    let subjects = walk.strategy().subject_keys().enumerate();
    let about = subjects.filter(|(_, subject)| walk.state.deployment(walk.child, subject) == left);
    let about: Vec<usize> = about.map(|(function, _)| function).collect();
    if variant == Variant::Unknown || about.len() == 1 {
        for function in about {
            replace(walk, function, variant, summary);
        }
    }
    true
}

fn replace(walk: &mut Walk<'_>, function: usize, variant: Variant, summary: &Summary) {
    let why = summary.why.as_ref().map(|why| why.text.clone());
    let (number, is_base) = (function as u8, variant == Variant::Base);
    walk.step(match variant {
        Variant::New => Step::Restored { function: number, why },
        Variant::Base | Variant::Unknown => Step::Replaced { function: number, is_base, why },
    });
    walk.deployed(function, variant);
}
