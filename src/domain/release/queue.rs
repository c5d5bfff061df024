//! Which release goes first where several change the same function.
//!
//! One after the other, in the order of submission; but a release with a start in the future, or that nobody has started, holds nobody up until its
//! time has come. So one may be overtaken by others that were submitted later, and then its number, which is that of its
//! submission, doesn't tell what came later at a child. Each release notes who it overtook and who overtook it: with
//! that it can tell of any other, also of one that has left memory long ago, which of both began later.
//!
//! Invariant: two releases that change the same function are never under way at the same time, unless they are of two tenants, who have
//! no child in common.

use super::{
    schedule,
    state::{Release, ReleaseState, Snapshot, State},
};
use language::Strategy;
use model::{Now, ReleaseKey, tenant};

/// A release that was overtaken so often lets no other pass, so that what is noted stays bounded.
const MAX_OVERTAKEN: usize = 10_000;

impl Release {
    /// Whether `other`, which changes one of the same functions, begins after this one.
    pub fn is_before(&self, other: ReleaseKey) -> bool {
        if other > self.key {
            !self.overtakes.overtaken_by.contains(&other)
        } else {
            self.overtakes.overtook.contains(&other)
        }
    }

    pub(super) fn insists(&self) -> bool {
        self.overtakes.overtaken_by.len() >= MAX_OVERTAKEN
    }
}

/// Whether a release has to wait for another one that is not over and changes one of its functions.
fn is_ahead(other: &Release, key: ReleaseKey, now: Now) -> bool {
    match other.state {
        ReleaseState::Planned => other.key < key && schedule::lets_no_other_pass(other, now.wall_ms),
        ReleaseState::Running
        | ReleaseState::Paused(_)
        | ReleaseState::AwaitingApproval { .. }
        | ReleaseState::RollingBack { .. }
        | ReleaseState::Over { .. } => true,
    }
}

impl Snapshot {
    /// The same as [`State::goes_before`]. Looks through all releases: who decides has them by function.
    pub fn goes_before<'a>(
        &'a self,
        strategy: &'a Strategy,
        key: ReleaseKey,
        now: Now,
    ) -> impl Iterator<Item = &'a Release> {
        self.conflicts(strategy, key).filter(move |other| is_ahead(other, key, now))
    }

    /// The same as [`State::conflicts`]. Looks through all releases.
    pub fn conflicts<'a>(
        &'a self,
        strategy: &'a Strategy,
        key: ReleaseKey,
    ) -> impl Iterator<Item = &'a Release> {
        let shares = |other: &Release| {
            if !tenant::meet(other.id.tenant(), strategy.tenant()) {
                return false;
            }
            let mut keys = other.strategy.subject_keys();
            keys.any(|key| strategy.subject_keys().any(|other| other == key))
        };
        let others = self.releases.values().filter(move |other| other.key != key && !other.state.is_over());
        others.filter(move |other| shares(other))
    }
}

impl State {
    /// Takes note of what a change has made of a release.
    pub(super) fn reschedule(&mut self, key: ReleaseKey) {
        self.schedule.note(key, self.shared.releases.get(&key));
    }

    /// Releases that are not over.
    pub(super) fn unfinished_releases(&self) -> usize {
        self.schedule.unfinished()
    }

    /// Releases under way that children may join.
    pub(super) fn joinable(&self) -> impl Iterator<Item = &Release> {
        self.schedule.open_to_all().filter_map(|key| self.release(key))
    }

    /// Whether a release that has not begun may begin now.
    pub(super) fn is_its_turn(&self, key: ReleaseKey) -> bool {
        self.schedule.is_ready(key)
    }

    /// Other releases that are not over and change one of the functions of `strategy`.
    pub fn conflicts<'a>(
        &'a self,
        strategy: &'a Strategy,
        key: ReleaseKey,
    ) -> impl Iterator<Item = &'a Release> {
        let others = self.schedule.sharing(strategy).into_iter().filter(move |other| *other != key);
        others.filter_map(|other| self.release(other))
    }

    /// Releases that share a function with `strategy` and for which a release has to wait.
    pub fn goes_before<'a>(
        &'a self,
        strategy: &'a Strategy,
        key: ReleaseKey,
        now: Now,
    ) -> impl Iterator<Item = &'a Release> {
        self.conflicts(strategy, key).filter(move |other| is_ahead(other, key, now))
    }

    /// Takes note of whom a release overtakes that begins.
    pub(super) fn overtake(&mut self, key: ReleaseKey) {
        let Some(strategy) = self.release(key).map(|release| std::sync::Arc::clone(&release.strategy)) else {
            return;
        };
        let overtook = self.schedule.planned_before(&strategy, key);
        for earlier in &overtook {
            if let Some(other) = self.releases.get_mut(earlier) {
                other.overtakes.overtaken_by.push(key);
            }
            self.reschedule(*earlier);
        }
        if let Some(release) = self.releases.get_mut(&key) {
            release.overtakes.overtook = overtook;
        }
    }
}
