//! Folding a change into the state. Infallible: whether a change is right was decided before it was made.
//!
//! What a change does stands with its subject; here is what they share.

use super::{
    analysis,
    assignment::{Dated, ReleaseEvent},
    change::Change,
    clock::ReleaseMs,
    deadline, lifecycle, members, parent, rollout,
    settings::Member,
    stages,
    state::{Release, Snapshot, State},
};
use crate::{children, traffic, workflows};
use model::{Now, ReleaseKey};

impl State {
    /// Folds one change in.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Children(change) => self.apply_to_children(change),
            Change::Lifecycle(change) => lifecycle::apply(self, change),
            Change::Rollout(change) => rollout::apply(self, change),
            Change::Stages(change) => stages::apply(self, change),
            Change::Members(change) => members::apply(self, change),
            Change::Parent(change) => parent::apply(self, change),
            Change::Analysis(change) => analysis::apply(self, change),
            Change::Traffic(change) => traffic::apply(&mut self.shared.traffic, change),
            Change::Workflows(change) => workflows::apply(&mut self.shared.workflows, change),
        }
        self.revise(change);
        if let Some(release) = change.release() {
            self.reschedule(release);
        }
    }

    fn apply_to_children(&mut self, change: &children::Change) {
        let Snapshot { children, settings, traffic, .. } = &mut self.shared;
        if let children::Change::Forgotten { child, .. } = change {
            traffic.forget(*child);
        }
        self.books.apply(children, change, settings.absence);
    }

    /// Changes a release, if it is in memory.
    pub(super) fn with_release(&mut self, key: ReleaseKey, change: impl FnOnce(&mut Release)) {
        if let Some(release) = self.shared.releases.get_mut(&key) {
            change(release);
        }
    }

    /// Folds a fact into every assignment of a release.
    pub(super) fn fold(&mut self, key: ReleaseKey, fact: ReleaseEvent, now: Now) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let dated = Dated { fact, at: release.at(now) };
        release.facts.push(dated);
        let deadlines = self.shared.settings.deadlines(&release.strategy, &self.shared.children);
        let mut next = ReleaseMs::MAX;
        for (child, assignment) in release.assignments.iter_mut() {
            release.counts.remove(assignment, &release.gates);
            assignment.fold(&dated, &release.strategy, &release.gates.levels);
            release.counts.add(assignment, &release.gates);
            release.attempt = release.attempt.max(assignment.attempt);
            let member = Member { child, part: assignment };
            next = next.min(deadline::soonest(member, deadlines, &release.strategy, &release.gates));
        }
        release.due_by(next);
    }
}
