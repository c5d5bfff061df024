//! What a release that came from the parent waits for there.

use crate::release::{
    gate::Gate,
    pause::PausedBy,
    state::{Release, ReleaseState},
};
use language::{Action, StageKind};

/// The stage in which the parent believes this manager to be. It is asked whether that may end; where the stage needs no
/// signal, it is asked all the same, for so it is heard that the parent takes the release back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub offer: String,
    /// Index in the strategy.
    pub stage: u8,
    pub name: String,
    /// Every child still in it is ready to end it.
    pub is_ready: bool,
    /// Stages have failed below and keep their shares, for the how manyth time: the parent is asked what becomes of them.
    pub failures: Option<u32>,
}

impl Release {
    /// Paused because the parent said so, and nobody here.
    pub fn is_held(&self) -> bool {
        let by_parent = self.state.pause().is_some_and(|pause| matches!(pause.by, PausedBy::Parent { .. }));
        by_parent && self.parent.is_some()
    }

    /// Whether the parent's own release is paused, whatever is paused here.
    pub fn is_held_by_parent(&self) -> bool {
        self.parent.as_ref().is_some_and(|parent| parent.held) || self.is_held()
    }

    /// The stage of which the parent is asked.
    pub fn waits_for_parent(&self) -> Option<Waiting> {
        let parent = self.parent.as_ref().filter(|_| self.may_end_well())?;
        let path = self.strategy.success_path();
        let stage = *path.get(usize::from(parent.reported))?;
        let name = self.strategy.stages.get(stage)?.name.clone();
        let reached = self.gates.stand.reached.filter(|_| self.is_running()).map(|reached| reached.gate);
        let barrier = self.barrier_of_parent(stage);
        let failures = parent.failed.is_some().then_some(parent.failures);
        let is_ready =
            failures.is_none() && barrier.is_some_and(|barrier| reached == Some(Gate::Level(barrier)));
        Some(Waiting { offer: parent.offer.clone(), stage: stage as u8, name, is_ready, failures })
    }

    /// The stage that follows the success of a stage.
    pub fn stage_after(&self, stage: u8) -> Option<&str> {
        match self.strategy.next(usize::from(stage), true) {
            Action::Stage(next) => Some(self.strategy.stages.get(next)?.name.as_str()),
            Action::Rollout | Action::Rollback => None,
        }
    }

    /// Whether it is not over, and not taken back.
    pub fn may_end_well(&self) -> bool {
        self.is_under_way() || self.state == ReleaseState::Planned
    }

    /// The barrier after a stage, if it is closed and only the parent opens it.
    pub(in crate::release) fn barrier_of_parent(&self, stage: usize) -> Option<u8> {
        let waits = self.strategy.stages.get(stage)?.kind == StageKind::WaitForSignal;
        let barrier = self.gates.levels.after_stage(stage);
        (waits && self.parent.is_some() && self.gates.stand.level <= barrier).then_some(barrier)
    }

    /// Whether a gate opens only when the parent says so.
    pub(in crate::release) fn wants_signal(&self, gate: Gate) -> bool {
        match gate {
            Gate::Wave(_) => self.keeps_waves_of_parent(),
            Gate::Level(level) => self.unreported().any(|stage| self.barrier_of_parent(stage) == Some(level)),
        }
    }

    /// The stages of the success path that the parent has not heard the end of. Of several, the last may have been reached
    /// by everybody before it is said that the first is over.
    fn unreported(&self) -> impl Iterator<Item = usize> {
        let parent = self.parent.as_ref().filter(|_| self.may_end_well());
        let reported = parent.map_or(usize::MAX, |parent| usize::from(parent.reported));
        self.strategy.success_path().into_iter().skip(reported)
    }

    /// The first closed barrier from this level on that only the parent opens.
    pub(in crate::release) fn signalled_from(&self, level: u8) -> u8 {
        self.gates.levels.signalled_from(level)
    }

    pub(in crate::release) fn keeps_waves_of_parent(&self) -> bool {
        let said = self.strategy.from_parent.as_ref().and_then(|said| said.waves);
        self.parent.is_some() && said.is_some()
    }

    /// Everybody whose wave has begun is done, and the parent opens the next.
    pub(super) fn is_between_waves(&self) -> bool {
        self.keeps_waves_of_parent() && self.counts.awaited_now == 0 && !self.rolls_out_untested()
    }
}
