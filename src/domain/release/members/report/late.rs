//! What comes too late: it is kept, and may still prove something.

use super::{agents_below::unconfirmed_below, read::Report, version_evidence::shows};
use crate::{
    children::{self, Variant},
    release::{
        assignment::{FunctionSet, ManagementMode, Shows, Step},
        change::Change,
        command::Refusal,
        decide::draft::Walk,
    },
};
use model::{Now, Outcome};

/// What came too late, in one call.
pub(super) struct Late {
    now: Now,
    pub(super) is_refused: bool,
    pub(super) changes: Vec<Change>,
}

impl Late {
    pub(super) const fn new(now: Now) -> Self {
        Self { now, is_refused: false, changes: Vec::new() }
    }
}

/// The child is in a later stage already: what it reported of the current one never came.
pub(super) fn skipped(
    walk: &mut Walk<'_>,
    report: &Report<'_>,
    changes_before: usize,
    late: &mut Late,
) -> Result<(), Refusal> {
    if walk.changes.len() > changes_before {
        // Nothing was lost on the way within one call.
        return Err(report.not_started(walk.strategy()));
    }
    walk.give_up(Outcome::Lost);
    if report.waits() {
        return Ok(());
    }
    late.changes.append(&mut walk.changes.split_off(changes_before));
    keep(walk, report, late);
    Ok(())
}

/// A report about an offer that is over for this child.
pub(super) fn past(
    walk: &mut Walk<'_>,
    report: &Report<'_>,
    changes_before: usize,
    late: &mut Late,
) -> Result<(), Refusal> {
    let assignment = &walk.assignment;
    if report.name == assignment.offer_name() && !assignment.fetched {
        return Err(report.not_started(walk.strategy()));
    }
    // An agent repeats this every second until it is answered well, whatever became of the release.
    if report.is_preliminary() {
        return Ok(());
    }
    if report.name.attempt == assignment.named {
        if let Some(mark) = assignment.mark(report.slot) {
            return report.beside(mark.digest, walk.strategy());
        }
    } else if assignment.marks().iter().any(|mark| {
        let earlier = mark.attempt >= report.name.attempt && mark.attempt < assignment.named;
        earlier && mark.slot == report.slot && mark.digest == report.received.digest
    }) {
        return Ok(());
    }
    if walk.changes.len() > changes_before {
        // An earlier summary of this very call ended it: nothing was late.
        return Err(report.not_started(walk.strategy()));
    }
    keep(walk, report, late);
    Ok(())
}

/// Keeps what came too late, and draws from it what it shows of the versions that run now.
///
/// Nobody is told that it is kept. So where a child says ever something else too late, that is passed over, unless it shows that the new
/// version runs and is not known to: what is to be undone there is undone, and that proves the base version.
fn keep(walk: &mut Walk<'_>, report: &Report<'_>, late: &mut Late) {
    late.is_refused = true;
    if walk.assignment.late().contains(&report.late_digest()) {
        return;
    }
    let strategy = walk.strategy();
    let status = report.summary().status;
    // What an earlier attempt left behind was replaced by what the present one tests.
    let is_replaced = report.name.attempt < walk.assignment.named && walk.assignment.has_begun();
    let shows = if is_replaced {
        Shows::Nothing
    } else {
        shows(&walk.assignment, strategy, report.piece, report.slot, status)
    };
    let pace = walk.state.children.get(walk.child).map(|child| child.pace).unwrap_or_default();
    let is_too_much = !pace.allows(late.now);
    if is_too_much && shows != Shows::New {
        return;
    }
    let (before, as_it_was) = (walk.changes.len(), walk.assignment.clone());
    walk.step(Step::Late { slot: Some(report.slot), status, shows, digest: report.late_digest() });
    unconfirmed_below(walk, report.summary());
    let functions = match walk.assignment.led {
        ManagementMode::InPlace(_) | ManagementMode::Whole(_) => walk.assignment.current_functions(strategy),
        ManagementMode::Stepwise(_) => FunctionSet::of(report.slot.function(strategy)),
    };
    match shows {
        Shows::New => {
            walk.deployed_all(functions, Variant::New);
            walk.offer_undo();
        }
        Shows::Base => functions.iter().for_each(|function| confirm_by_late_result(walk, function)),
        Shows::Nothing => {}
    }
    let mut found = walk.changes.split_off(before);
    if is_too_much && found.len() == 1 {
        walk.assignment = as_it_was;
        return;
    }
    late.changes.push(report.keep_late(walk));
    late.changes.append(&mut found);
    late.changes.push(Change::Children(children::Change::Paced { child: walk.child, now: late.now }));
}

/// A late result that proves the base version makes an undo needless, unless the child has it in hand already.
fn confirm_by_late_result(walk: &mut Walk<'_>, function: usize) {
    walk.deployed(function, Variant::Base);
    let waits =
        walk.assignment.pending_undo().is_some_and(|undo| !undo.fetched && undo.functions.contains(function));
    if waits {
        walk.step(Step::UndoConfirmed { function: function as u8 });
    }
}
