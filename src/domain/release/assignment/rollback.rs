//! A child is asked to go back to the base version, and proves that it has.

use super::{Assignment, FunctionSet, Undo};
use crate::release::{clock::ReleaseMs, offer::MAX_UNDO};
use model::Outcome;

impl Assignment {
    /// An undo that is not confirmed.
    pub fn pending_undo(&self) -> Option<&Undo> {
        self.undo().filter(|undo| undo.is_pending())
    }

    /// Until when, in serving time, nothing of this release is offered to the child: the next undo after one that failed, or a
    /// stage that it ended too soon.
    pub fn rests_until(&self) -> Option<u64> {
        match self.pending_undo() {
            Some(undo) => undo.rests_until,
            None => self.idle().and_then(|idle| idle.rests_until),
        }
    }

    /// What an undo of `functions` has to take back, unless the child was offered that already or another has
    /// taken its place.
    pub fn missing_undo(&self, functions: FunctionSet) -> Option<FunctionSet> {
        let offered = self.pending_undo().map_or(FunctionSet::EMPTY, |undo| undo.functions);
        let all = offered.union(functions);
        (self.rare().successor.is_none() && all != offered).then_some(all)
    }

    pub(super) fn offer_undo(&mut self, functions: FunctionSet, at: ReleaseMs) {
        let before = self.undo();
        let number = before.map_or(1, |undo| (undo.number + 1).min(MAX_UNDO));
        // However much there is to take back now: a child that fails doesn't rest less for it.
        let fresh = Undo {
            number,
            functions,
            fetched: false,
            since: at,
            asked: at,
            polls: 0,
            overdue: false,
            failures: 0,
            rests_until: None,
            why: None,
        };
        let undo = match before.filter(|undo| undo.is_pending()) {
            Some(Undo { overdue, asked, failures, rests_until, why, .. }) => Undo {
                overdue: *overdue,
                asked: *asked,
                failures: *failures,
                rests_until: *rests_until,
                why: why.clone(),
                ..fresh
            },
            None => fresh,
        };
        self.change_rare(|rare| rare.undo = Some(Box::new(undo)));
    }

    /// It is told of its undo only now: its time begins.
    pub(super) fn ask_anew(&mut self, at: ReleaseMs) {
        self.change_undo(|undo| {
            if undo.is_pending() && !undo.overdue && !undo.fetched {
                (undo.since, undo.asked) = (at, at);
            }
        });
    }

    pub(super) fn fetch_undo(&mut self, at: ReleaseMs) {
        self.change_undo(|undo| {
            undo.fetched = true;
            undo.since = at;
            undo.polls = 0;
        });
    }

    pub(super) fn confirm_undo(&mut self, function: usize, at: ReleaseMs) {
        self.tainted = self.tainted.without(function);
        self.rolled_out = self.rolled_out.without(function);
        if self.undo().is_none() {
            return;
        }
        self.change_undo(|undo| undo.confirm(function, at));
        if self.pending_undo().is_none()
            && self.status.is_over()
            && matches!(self.outcome, None | Some(Outcome::Succeeded | Outcome::Untested))
        {
            // What went wrong first is what a person wants to know, and a new attempt has no outcome yet.
            self.outcome = Some(Outcome::Undone);
        }
    }

    /// A later release changed what was to be undone, or the child is gone.
    pub(super) fn drop_undo(&mut self) {
        self.change_undo(|undo| undo.functions = FunctionSet::EMPTY);
        if let Some(whole) = self.whole_mut() {
            whole.reported.unconfirmed = 0;
        }
        // What it was to take back for another is nothing of its own.
        let never_began = self.attempt <= 2 && !self.has_begun() && self.marks().is_empty();
        if self.rare().predecessor.is_some() && never_began {
            self.tainted = FunctionSet::EMPTY;
        }
    }

    /// Whether it owes an undo for which the release waits no longer.
    pub(in crate::release) fn owes_overdue(&self) -> bool {
        self.pending_undo().is_some_and(|undo| undo.overdue)
    }
}
