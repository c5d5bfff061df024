//! Folding a change of the course of a release in.

use std::sync::Arc;

use super::{Change, Membership, Submission};
use crate::release::{
    assignment::{Assignment, ReleaseEvent, Step},
    assignments::Assignments,
    clock::ReleaseMs,
    deadline,
    gate::WavePlan,
    settings::Member,
    state::{Counts, End, Release, ReleaseRecord, ReleaseState, State},
};
use model::{ChildKey, Now, ReleaseKey};

/// Folds one change in.
pub(in crate::release) fn apply(state: &mut State, change: &Change) {
    match change {
        Change::Submitted { release, submitted, now } => state.submit(*release, submitted, *now),
        Change::Started { release, membership, now } => state.start(*release, membership, *now),
        Change::Paused { release, pause, now } => state.with_release(*release, |release| {
            release.clock.pause(*now);
            release.asking = None;
            // A pause gives way to another only while the parent holds the release: somebody here has let it go on, and may
            // pause it again.
            release.accept_pause();
            release.state = ReleaseState::Paused(pause.clone());
        }),
        Change::Resumed { release, now } => state.resume(*release, *now),
        Change::Aborted { release, why, end, now } => {
            state.with_release(*release, |release| {
                release.clock.resume(*now);
                release.ended = None;
                release.state = ReleaseState::RollingBack { reason: why.text.clone(), end: *end };
                (release.ending, release.first_fault) = (Some(why.clone()), None);
            });
            state.fold(*release, ReleaseEvent::Aborted, *now);
        }
        Change::FaultNoted { release, child, ending } => state.with_release(*release, |release| {
            (release.ending, release.first_fault) = (Some(ending.clone()), Some(*child));
        }),
        Change::Retried { release, now } => {
            state.with_release(*release, Release::try_again);
            state.fold(*release, ReleaseEvent::Retried, *now);
        }
        Change::RoutersBack { release, now } => state.fold(*release, ReleaseEvent::RoutersBack, *now),
        Change::Replanned { release, .. } => state.with_release(*release, Release::plan_again),
        Change::Ended { release, end, unconfirmed, now } => state.with_release(*release, |release| {
            if matches!(end, End::Done | End::Untested) {
                (release.ending, release.first_fault) = (None, None);
            }
            release.state = ReleaseState::Over { end: *end, unconfirmed: *unconfirmed };
            release.ended = Some(*now);
            release.end_analyses();
        }),
        // Its revision moves, as with each change that people decide on.
        Change::ActedOn { .. } => {}
        Change::Removed { id, .. } => {
            state.known.remove(id);
        }
    }
}

impl Release {
    /// Takes note of what is accepted where it goes on after the pause in which it is. Verdicts are accepted apart, by those
    /// who have waited for them.
    fn accept_pause(&mut self) {
        self.gates.stand.waived |= self.is_unproven();
        if self.state.pause().is_some_and(|pause| pause.by.is_limit()) {
            self.accepted = self.counts.bad();
        }
    }

    fn try_again(&mut self) {
        (self.ending, self.first_fault) = (None, None);
        if self.state.is_over() {
            // Nobody else is in it: those who get another attempt meet the barriers anew.
            self.gates.stand.level = self.gates.levels.barrier_from(0);
            self.ended = None;
        }
        self.state = ReleaseState::Running;
    }
}

impl State {
    fn submit(&mut self, key: ReleaseKey, submitted: &Submission, now: Now) {
        self.next_release = self.next_release.max(key.0 + 1);
        self.known.insert(submitted.id.clone(), ReleaseRecord { key, digest: submitted.recognised_by() });
        self.shared.releases.insert(key, Release::new(key, submitted, now));
    }

    fn resume(&mut self, key: ReleaseKey, now: Now) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        if release.deferred {
            // Nobody has begun it: whether its turn has come is seen to after this.
            release.deferred = false;
            return;
        }
        let level = release.gates.stand.level;
        release.clock.resume(now);
        release.accept_pause();
        release.accept_verdicts();
        release.state = ReleaseState::Running;
        self.fold(key, ReleaseEvent::Resumed { level }, now);
    }

    fn start(&mut self, key: ReleaseKey, membership: &Membership, now: Now) {
        self.overtake(key);
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let Membership { members, excluded, waves, managers, in_place, lacks, left_out } = membership;
        release.state = ReleaseState::Running;
        release.asking = None;
        release.left_out = *left_out;
        release.started = Some(now);
        release.started_at = release.at(now);
        release.members = Arc::clone(members);
        release.excluded.clone_from(excluded);
        release.turns = WavePlan::new(members, waves, managers);
        release.managers = managers.iter().map(|(child, planned)| (*child, planned.clone())).collect();
        release.gates.stand.opened = release.started_at;
        let wave = |at: usize| waves.get(at).copied().unwrap_or_default();
        let member = |(at, child): (usize, &ChildKey)| {
            let lacks = lacks.get(at).copied().unwrap_or_default();
            let is_in_place = in_place.binary_search(child).is_ok();
            let part = release.fresh_part(*child, is_in_place, lacks, release.started_at);
            // One that is planned once more keeps some.
            (*child, Assignment { wave: wave(at), facts: release.facts.len() as u16, ..part })
        };
        let mut assignments: Assignments = members.iter().enumerate().map(member).collect();
        // It is planned once more: who had a part in it has another attempt, or the part that it had.
        for (child, before) in &release.assignments {
            let mut part = before.clone();
            if let Some(fresh) = assignments.get(child) {
                part.apply(&Step::Retried, &release.strategy, release.started_at);
                part.wave = fresh.wave;
                part.lead_as(fresh, &release.strategy);
            }
            assignments.insert(*child, part);
        }
        release.assignments = assignments;
        release.counts = Counts::default();
        release.turns = std::mem::take(&mut release.turns).parted(release.first_of_routers());
        for assignment in release.assignments.values() {
            release.counts.add(assignment, &release.gates);
        }
        let deadlines = self.shared.settings.deadlines(&release.strategy, &self.shared.children);
        let soonest = |(child, part): (&ChildKey, &Assignment)| {
            let member = Member { child: *child, part };
            deadline::soonest(member, deadlines, &release.strategy, &release.gates)
        };
        release.next_deadline = release.assignments.iter().map(soonest).min().unwrap_or(ReleaseMs::MAX);
        for child in members.iter() {
            // A release that waited in the queue may start after one that was submitted later.
            self.shared.children.take_part(*child, key);
        }
    }
}
