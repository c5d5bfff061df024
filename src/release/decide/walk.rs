//! A draft of several steps of one child: each is applied to a copy, so that the next sees what came before.

use crate::{
    model::{ChildKey, ChildStatus, Now, Outcome},
    release::{
        assignment::{Assignment, FunctionSet, ReleaseMs, Step},
        change::{Change, Variant},
        state::{Deployment, Release, State},
        summary::Kept,
    },
    strategy::Strategy,
};

pub(super) struct Walk<'a> {
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

    pub fn step_with(&mut self, step: Step, summary: Option<Kept>) {
        self.assignment.apply(&step, &self.release.strategy, self.at);
        self.push_for(self.child, step, summary);
    }

    /// A step of another child in the same release.
    pub fn push_for(&mut self, child: ChildKey, step: Step, summary: Option<Kept>) {
        self.changes.push(Change::Child {
            release: self.release.key,
            child,
            step,
            at: self.at,
            summary: summary.map(Box::new),
        });
    }

    /// Says what the child runs of a function, unless that is said already.
    pub fn deployed(&mut self, function: usize, variant: Variant) {
        let Some(name) = self.strategy().functions.get(function).map(|f| f.name.as_str()) else { return };
        let release = self.release.key;
        let said = self.changes.iter().rev().find_map(|change| match change {
            Change::Deployed { child, function: of, variant, .. }
                if *child == self.child && *of == function =>
            {
                Some(Deployment { release, variant: *variant })
            }
            _ => None,
        });
        let said = said.or_else(|| self.state.deployment(self.child, name));
        if said != Some(Deployment { release, variant }) {
            self.changes.push(Change::Deployed { child: self.child, release, function, variant });
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
        if self.assignment.pending_undo().is_some() || self.assignment.successor.is_some() {
            return;
        }
        let functions = self.undoable(self.assignment.may_run_new());
        if !functions.is_empty() {
            self.step(Step::UndoOffered { functions });
        }
    }

    /// Those of `functions` that no later release changed, or is about to change, at this child.
    fn undoable(&self, functions: FunctionSet) -> FunctionSet {
        functions
            .iter()
            .filter(|function| !self.changed_later(*function))
            .fold(FunctionSet::EMPTY, FunctionSet::with)
    }

    fn changed_later(&self, function: usize) -> bool {
        let Some(name) = self.strategy().functions.get(function).map(|f| f.name.as_str()) else {
            return true;
        };
        let later = self.release.key;
        let deployed = self.state.deployment(self.child, name).is_some_and(|found| found.release > later);
        deployed
            || self.state.children.get(self.child).is_some_and(|child| {
                child.open.iter().filter(|key| **key > later).any(|key| {
                    self.state.release(*key).is_some_and(|release| {
                        let started = release
                            .assignments
                            .get(&self.child)
                            .is_some_and(|a| a.fetched && a.status == ChildStatus::Doing);
                        started && release.strategy.functions.iter().any(|f| f.name == name)
                    })
                })
            })
    }

    /// A child that was taken for lost because another seemed to be its successor calls again: it is none.
    ///
    /// Where the release goes on, so does the child; else what it may have left running is undone.
    pub fn reinstate(&mut self) {
        let lost = self.assignment.outcome == Some(Outcome::Lost);
        let Some(successor) = self.assignment.successor.filter(|_| lost) else { return };
        self.step(Step::Reinstated);
        if self.release.state.is_over() || self.release.facts.len() > usize::from(self.assignment.facts) {
            return self.give_up(Outcome::Lost);
        }
        if matches!(self.release.state, crate::release::state::ReleaseState::RollingBack { .. }) {
            return self.give_up(Outcome::Lost);
        }
        let unfetched = self
            .release
            .assignments
            .get(&successor)
            .and_then(Assignment::pending_undo)
            .is_some_and(|undo| !undo.fetched);
        if unfetched {
            self.push_for(successor, Step::UndoDropped, None);
        }
    }
}
