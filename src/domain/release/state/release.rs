//! One release in memory.

use std::sync::Arc;

use super::{Bad, Counts, Overtakes, ReleaseState, Revision};
use crate::{
    plan::KeptCover,
    release::{
        analysis::Run,
        assignment::{Dated, StageSet},
        assignments::Assignments,
        clock::{ReleaseClock, ReleaseMs},
        ending::Ending,
        gate::{Gates, WavePlan},
        lifecycle::{Adoption, Submission},
        manager::Managers,
        parent::ParentOffer,
        previous_run::Timed,
    },
};
use language::Strategy;
use model::{ChildKey, Exclusion, Now, ReleaseId, ReleaseKey};

/// A release in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    pub key: ReleaseKey,
    pub id: ReleaseId,
    pub strategy: Arc<Strategy>,
    pub text: Arc<str>,
    pub digest: [u8; 32],
    pub archive: [u8; 32],
    /// `None`: it was submitted here.
    pub parent: Option<ParentOffer>,
    /// What is registered when it ends as [`End::Done`](super::End::Done); `None`: nothing, or it was and the release is tried again.
    pub adopts: Option<Arc<Adoption>>,
    pub state: ReleaseState,
    pub revision: Revision,
    /// The number of its revision when somebody acted on it last.
    pub acted: u32,
    pub clock: ReleaseClock,
    /// What happened to all at once, in order.
    pub facts: Vec<Dated>,
    pub submitted: Now,
    /// It was submitted without being started, and nobody has started it yet: it holds no other up.
    pub deferred: bool,
    /// See [`crate::release::queue`].
    pub overtakes: Overtakes,
    pub started: Option<Now>,
    /// [`Self::clock`] at the start: when every member was offered its first stage.
    pub started_at: ReleaseMs,
    pub ended: Option<Now>,
    /// Why it is taken back, or the first child that ended badly.
    pub ending: Option<Box<Ending>>,
    /// That child, while nothing worse has happened.
    pub first_fault: Option<ChildKey>,
    /// The child that failed its undo last: it is told of where somebody asks what the release waits for. Not stored: after a start it is
    /// any that did.
    pub failed_undo: Option<ChildKey>,
    /// Highest attempt given to any child.
    pub attempt: u16,
    pub members: Arc<[ChildKey]>,
    pub excluded: Vec<(Exclusion, u32)>,
    /// Members, and those that joined later, that are managers themselves.
    pub managers: Managers,
    /// Agents that come last because they were silent when the last wave was opened.
    pub left_out: u32,
    /// Managers below are asked who can take part, until this serving time. Not stored.
    pub asking: Option<u64>,
    /// Children that joined later.
    pub joined: u32,
    /// Members by their turns.
    pub turns: WavePlan,
    pub gates: Gates,
    /// What has been accepted of the children that ended badly: by resuming after a limit was passed.
    pub accepted: Bad,
    /// The latest run of each block of analysis that has begun.
    pub runs: Arc<Vec<Run>>,
    /// Stages that have failed at somebody and kept their shares, whatever was decided of them.
    pub failed: StageSet,
    /// When its stages were, in the order in which they began.
    pub times: Vec<Timed>,
    /// Members and stand-ins.
    pub assignments: Assignments,
    pub counts: Counts,
    /// No deadline of this release is due before. A bound, not the exact instant.
    pub next_deadline: ReleaseMs,
    /// Where looking through the deadlines has come to, if that takes several ticks.
    pub sweep: Option<Sweep>,
    /// It has the part of one child alone: what is said of all is not true of it. Never of one that stays in memory.
    pub is_part: bool,
    /// The area of its target as it was prepared last, for a child alone.
    pub cover: KeptCover,
}

/// A look through the deadlines of a release that is not at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// The last child that was looked at.
    pub after: ChildKey,
    /// No deadline of those who were is due before.
    pub next: ReleaseMs,
}

impl Release {
    pub(in crate::release) fn new(key: ReleaseKey, submitted: &Submission, now: Now) -> Self {
        Self {
            key,
            id: submitted.id.clone(),
            strategy: Arc::clone(&submitted.strategy),
            text: Arc::clone(&submitted.text),
            digest: submitted.recognised_by(),
            archive: submitted.archive,
            parent: submitted.parent.clone(),
            adopts: submitted.adopts.clone(),
            state: ReleaseState::Planned,
            revision: Revision::default(),
            acted: 0,
            clock: ReleaseClock::default(),
            facts: Vec::new(),
            submitted: now,
            deferred: submitted.deferred,
            overtakes: Overtakes::default(),
            started: None,
            started_at: 0,
            ended: None,
            ending: None,
            first_fault: None,
            failed_undo: None,
            attempt: 1,
            members: Arc::new([]),
            excluded: Vec::new(),
            managers: Managers::default(),
            left_out: 0,
            asking: None,
            joined: 0,
            turns: WavePlan::default(),
            gates: Gates::new(&submitted.strategy, submitted.parent.is_some()),
            accepted: Bad::default(),
            runs: Arc::default(),
            failed: StageSet::EMPTY,
            times: Vec::new(),
            assignments: Assignments::default(),
            counts: Counts::default(),
            next_deadline: ReleaseMs::MAX,
            sweep: None,
            is_part: false,
            cover: KeptCover::default(),
        }
    }

    /// Counts all assignments anew.
    pub fn recount(&mut self) {
        self.counts = Counts::default();
        for (child, assignment) in &self.assignments {
            self.counts.add(assignment, &self.gates);
            if assignment.pending_undo().is_some_and(|undo| undo.failures > 0) {
                self.failed_undo = Some(*child);
            }
        }
    }

    /// Something is due at this instant.
    pub(in crate::release) fn due_by(&mut self, at: ReleaseMs) {
        self.next_deadline = self.next_deadline.min(at);
        if let Some(sweep) = &mut self.sweep {
            sweep.next = sweep.next.min(at);
        }
    }

    /// Children that it was planned for, or that joined.
    pub fn participants(&self) -> u32 {
        self.members.len() as u32 + self.joined
    }

    /// Whether children are offered what comes next.
    pub fn is_running(&self) -> bool {
        self.state == ReleaseState::Running
    }

    pub const fn is_paused(&self) -> bool {
        matches!(self.state, ReleaseState::Paused { .. })
    }

    /// Whether one more child may be shown its offer; always where there is no limit.
    pub fn has_place(&self) -> bool {
        self.gates.levels.at_once.is_none_or(|most| self.counts.in_progress < self.places(most))
    }

    /// Whether it has begun and may yet end well.
    pub const fn is_under_way(&self) -> bool {
        self.state.is_under_way()
    }

    /// Whether it must stay in memory: it is not over, or somebody owes the proof of the base version.
    pub fn is_open(&self) -> bool {
        !self.state.is_over() || self.unproven() > 0
    }

    /// Agents that have not proven that they run the base version again.
    pub fn unproven(&self) -> u32 {
        let not_overdue = self.counts.undoing.saturating_sub(self.counts.undo_overdue);
        self.counts.agents.unconfirmed.saturating_add(not_overdue)
    }

    /// Whether the child has come to a closed barrier, and can only wait for others.
    pub fn holds_at_barrier(&self, child: ChildKey) -> bool {
        self.strategy.rollout.is_some()
            && self.assignments.get(&child).is_some_and(|assignment| {
                assignment.status == model::ChildStatus::Doing && !self.gates.waits_for(assignment)
            })
    }

    /// The instant before which it does not start, in milliseconds since 1970.
    pub fn starts_at(&self) -> Option<i64> {
        self.strategy.rollout.as_ref().and_then(|rollout| rollout.start_ms)
    }

    /// The instant on the clock of this release.
    pub fn at(&self, now: Now) -> ReleaseMs {
        self.clock.at(now)
    }
}
