//! Which releases are in memory: those that are not over, and those that somebody owes the proof of the base version.
//!
//! What leaves memory is kept until what is to be stored of it was made ([`State::take_closed`]).

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    change::Change,
    command::Command,
    state::{Release, ReleaseRecord, State},
};
use model::ReleaseKey;

impl State {
    /// Holds a release that comes from the store.
    pub fn hold(&mut self, mut release: Release) {
        let key = release.key;
        self.next_release = self.next_release.max(key.0 + 1);
        self.known.insert(release.id.clone(), ReleaseRecord { key, digest: release.digest });
        // What was decided of some of its children in this very batch is not in the store yet.
        let parts =
            self.closed.get(&key).filter(|closed| closed.is_part).map(|closed| closed.assignments.iter());
        for (child, part) in parts.into_iter().flatten() {
            if let Some(assignment) = release.assignments.get_mut(child) {
                release.counts.remove(assignment, &release.gates);
                assignment.clone_from(part);
                release.counts.add(assignment, &release.gates);
            }
        }
        for child in release.assignments.keys() {
            self.shared.children.take_part(*child, key);
        }
        self.releases.insert(key, release);
        self.reschedule(key);
    }

    /// Lets every release leave memory that a command touched or recalled, and that nothing keeps. Only after all
    /// changes of the command: one of them may drop an undo that the next offers again.
    pub fn let_go_of_closed(&mut self, command: &Command, changes: &[Change]) {
        if let Command::Recalled { release, .. } = command {
            self.let_go(release.key);
        }
        for key in changes.iter().filter_map(Change::release) {
            self.let_go(key);
        }
    }

    /// A release that is over and owes nobody an undo leaves memory.
    pub fn let_go(&mut self, key: ReleaseKey) {
        if self.releases.get(&key).is_none_or(Release::is_open) {
            return;
        }
        self.last_left = self.decided;
        if let Some(release) = self.take_out(key) {
            self.closed.insert(key, release);
        }
    }

    /// The part of a child leaves memory again, with what has become of it if that is to be stored.
    pub(super) fn put_aside(&mut self, key: ReleaseKey, is_to_be_stored: bool) {
        let Some(part) = self.take_out(key).filter(|_| is_to_be_stored) else { return };
        match self.closed.entry(key) {
            Entry::Vacant(place) => drop(place.insert(part)),
            Entry::Occupied(mut before) => {
                for (child, assignment) in &part.assignments {
                    before.get_mut().assignments.insert(*child, assignment.clone());
                }
            }
        }
    }

    fn take_out(&mut self, key: ReleaseKey) -> Option<Release> {
        let release = self.releases.remove(&key)?;
        self.reschedule(key);
        for child in release.assignments.keys() {
            self.shared.children.leave(*child, key);
        }
        Some(release)
    }

    /// The releases that left memory since the last call: what is stored of them is made from here.
    pub fn take_closed(&mut self) -> BTreeMap<ReleaseKey, Release> {
        std::mem::take(&mut self.closed)
    }
}
