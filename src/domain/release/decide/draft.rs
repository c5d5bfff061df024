//! A draft of several steps of one child: each is applied to a copy, so that the next sees what came before.

use crate::{
    children::{Deployment, Variant},
    release::{
        assignment::{Assignment, FunctionSet, Step},
        change::Change,
        clock::ReleaseMs,
        members,
        next_action::{self, NextAction},
        offer::MAX_ATTEMPT,
        state::{Release, State},
        summary::StoredSummary,
    },
};
use language::Strategy;
use model::{ChildKey, ChildStatus, Exclusion, Now, Outcome, ReleaseKey};

pub(in crate::release) struct Walk<'a> {
    pub state: &'a State,
    pub release: &'a Release,
    pub child: ChildKey,
    /// The child as it is after the steps so far.
    pub assignment: Assignment,
    pub at: ReleaseMs,
    pub changes: Vec<Change>,
}

impl<'a> Walk<'a> {
    /// `None` if the child has no part in the release.
    pub fn start(state: &'a State, release: &'a Release, child: ChildKey, now: Now) -> Option<Self> {
        let assignment = release.assignments.get(&child)?.clone();
        Some(Self { state, release, child, assignment, at: release.at(now), changes: Vec::new() })
    }

    pub fn strategy(&self) -> &'a Strategy {
        &self.release.strategy
    }

    pub fn step(&mut self, step: Step) {
        self.step_with(step, None);
    }

    pub fn step_with(&mut self, step: Step, summary: Option<StoredSummary>) {
        self.assignment.apply(&step, &self.release.strategy, self.at);
        self.push_for(self.child, step, summary);
    }

    /// A step of another child in the same release.
    pub fn push_for(&mut self, child: ChildKey, step: Step, summary: Option<StoredSummary>) {
        self.changes.push(Change::Members(members::Change::Stepped {
            release: self.release.key,
            child,
            step,
            at: self.at,
            summary: summary.map(Box::new),
        }));
    }

    /// Says what the child runs of a function, unless that is said already or a later release changed it.
    pub fn deployed(&mut self, function: usize, variant: Variant) {
        if self.undoable(FunctionSet::of(function)).is_empty() {
            return;
        }
        let Some(name) = self.strategy().subject_key(function) else { return };
        let release = self.release.key;
        let said = self.changes.iter().rev().find_map(|change| {
            let Change::Members(members::Change::Deployed { child, function: of, variant, .. }) = change
            else {
                return None;
            };
            let is_it = *child == self.child && *of == function;
            is_it.then_some(Deployment { release, variant: *variant })
        });
        let said = said.or_else(|| self.state.deployment(self.child, name));
        if said != Some(Deployment { release, variant }) {
            self.changes.push(Change::Members(members::Change::Deployed {
                child: self.child,
                release,
                function,
                variant,
            }));
        }
    }

    /// Says the same of several functions.
    pub fn deployed_all(&mut self, functions: FunctionSet, variant: Variant) {
        for function in functions.iter() {
            self.deployed(function, variant);
        }
    }

    /// Ends the attempt without a report that counts. Whatever may be left running is to be undone.
    pub fn give_up(&mut self, outcome: Outcome) {
        self.step(Step::Ended { status: ChildStatus::Failed, outcome });
        for function in self.assignment.may_run_new().iter() {
            self.deployed(function, Variant::Unknown);
        }
        self.offer_undo();
    }

    /// Offers the undo of everything that may run the new version, where no later release changed it and no undo
    /// is under way.
    pub fn offer_undo(&mut self) {
        let functions = self.undoable(self.assignment.may_run_new());
        if let Some(functions) = self.assignment.missing_undo(functions) {
            self.step(Step::UndoOffered { functions });
        }
    }

    /// The undo in hand came to nothing: another one follows after so long, in milliseconds of serving time.
    pub fn fail_undo(&mut self, rest_ms: Option<u64>, why: Option<String>, now: Now) {
        let rests_until = rest_ms.map(|rest| now.served_ms.saturating_add(rest));
        self.step(Step::UndoFailed { rests_until, why });
    }

    /// Takes out of an undo that was just offered to everybody what must not be undone here.
    pub fn trim_undo(&mut self) {
        let Some(offered) = self.assignment.pending_undo().map(|undo| undo.functions) else { return };
        let gone = self.state.children.get(self.child).is_none();
        let functions = if gone { FunctionSet::EMPTY } else { self.undoable(offered) };
        if functions.is_empty() {
            self.step(Step::UndoDropped);
        } else if functions != offered {
            self.step(Step::UndoOffered { functions });
        }
    }

    fn undoable(&self, functions: FunctionSet) -> FunctionSet {
        not_changed_later(self.state, self.release, self.child, functions)
    }

    /// A child whose place another seemed to have taken calls again: that one was none of its successors.
    ///
    /// Where the release goes on, so does the child; else what it may have left running is undone.
    pub fn reinstate(&mut self) {
        let Some(successor) = self.assignment.rare().successor else { return };
        let was_at_work = self.assignment.rare().displaced;
        self.step(Step::Reinstated);
        if !was_at_work {
            let waited = self.assignment.outcome == Some(Outcome::Excluded(Exclusion::Replaced));
            if waited && self.release.is_under_way() && self.assignment.attempt < MAX_ATTEMPT {
                self.step(Step::Retried);
            }
            return self.offer_undo();
        }
        let goes_on = self.release.is_under_way();
        if !goes_on || self.has_another_in_hand() {
            return self.give_up(Outcome::Lost);
        }
        if self.assignment.pending_undo().is_some() {
            self.step(Step::UndoDropped);
        }
        self.relieve(successor);
    }

    /// One that stood in for this child and has begun nothing there has nothing to do for it any more. One that has
    /// begun goes on: it is a machine of its own.
    fn relieve(&mut self, successor: ChildKey) {
        let part = self.release.assignments.get(&successor);
        let Some(part) = part.filter(|part| part.rare().predecessor == Some(self.child) && !part.has_begun())
        else {
            return;
        };
        // One that has begun itself may owe it for its own part.
        if part.pending_undo().is_some_and(|undo| !undo.fetched) {
            self.push_for(successor, Step::UndoDropped, None);
        }
        let is_its_own =
            part.rare().joined.is_some() || self.release.members.binary_search(&successor).is_ok();
        if part.status == ChildStatus::Todo && !is_its_own {
            let outcome = Outcome::Excluded(Exclusion::Successor);
            self.push_for(successor, Step::Ended { status: ChildStatus::No, outcome }, None);
        }
    }

    /// A child that took something else since can't have gone on with this.
    fn has_another_in_hand(&self) -> bool {
        matches!(next_action::turn(self.state, self.child), NextAction::Busy { release, .. } if release != self.release.key)
    }
}

/// Those of `functions` that no release later than this one changed, or began to change, at the child.
pub(in crate::release) fn not_changed_later(
    state: &State,
    release: &Release,
    child: ChildKey,
    functions: FunctionSet,
) -> FunctionSet {
    let changed_later = |function: usize| {
        let Some(name) = release.strategy.subject_key(function) else {
            return true;
        };
        let began = |key: &ReleaseKey| {
            state.release(*key).is_some_and(|later| {
                later.strategy.subject_keys().any(|key| key == name)
                    && later.assignments.get(&child).is_some_and(Assignment::has_begun)
            })
        };
        let open = state.children.get(child).map(|child| child.open.as_slice()).unwrap_or_default();
        state.deployment(child, name).is_some_and(|found| release.is_before(found.release))
            || open.iter().filter(|key| release.is_before(**key)).any(began)
    };
    functions.iter().filter(|function| !changed_later(*function)).fold(FunctionSet::EMPTY, FunctionSet::with)
}
