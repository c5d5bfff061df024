//! What began or ended, and what there is to compare with.

use super::{MAX_TIMES, Time, Timed};
use crate::release::{assignment::Step, change::Change, lifecycle, members, rollout, stages, state::Release};
use language::Order;
use model::{ChildKey, Now, StageStatus};

impl Release {
    /// What there is to compare with of one of its functions, should it end now.
    pub fn times_of(&self, function: usize, now_ms: i64) -> Vec<Time> {
        let stage =
            |timed: &Timed| timed.stage.and_then(|stage| self.strategy.stages.get(usize::from(stage)));
        let is_meant = |timed: &&Timed| stage(timed).is_none_or(|stage| stage.subject == function);
        let times = self.times.iter().filter(is_meant).map(|timed| Time {
            stage: stage(timed).map(|stage| stage.name.clone()),
            number: timed.number,
            began_ms: timed.began_ms,
            ended_ms: timed.ended_ms.unwrap_or(now_ms),
        });
        times.collect()
    }

    /// Which step the whole release is at.
    pub(in crate::release) fn step(&self) -> u32 {
        match self.strategy.rollout.as_ref().map(|rollout| &rollout.order) {
            None => 0,
            Some(Order::GlobalIncremental) => u32::from(self.gates.front()),
            Some(Order::Parallel | Order::LocationSequential { .. } | Order::Waves(_)) => {
                self.gates.stand.waves.saturating_sub(1)
            }
        }
    }

    fn timed(&self, stage: Option<u8>, number: u32) -> Option<&Timed> {
        self.times.iter().find(|timed| (timed.stage, timed.number) == (stage, number))
    }

    /// The stage and wave in which a child is at work.
    fn at_work(&self, child: ChildKey) -> Option<(u8, u32)> {
        let found = self.assignments.get(&child)?;
        let stage = found.slot.stage_index().filter(|_| found.fetched && !found.status.is_over())?;
        Some((u8::try_from(stage).ok()?, found.wave))
    }

    /// Folds a time in.
    pub(in crate::release) fn apply_time(&mut self, stage: Option<u8>, number: u32, ended: bool, now: Now) {
        let at = self.times.iter_mut().find(|timed| (timed.stage, timed.number) == (stage, number));
        match at {
            Some(timed) if ended => timed.ended_ms = Some(now.wall_ms),
            Some(_) => {}
            None => {
                let ended_ms = ended.then_some(now.wall_ms);
                self.times.push(Timed { stage, number, began_ms: now.wall_ms, ended_ms });
            }
        }
    }
}

/// What may have begun or ended with a change.
enum Timing<'c> {
    No,
    /// A step of the whole release.
    Step,
    /// What a child is in.
    Child(ChildKey, &'c Step),
}

impl<'c> Timing<'c> {
    const fn of(change: &'c Change) -> Self {
        match change {
            Change::Lifecycle(change) => match change {
                lifecycle::Change::Started { .. } => Self::Step,
                lifecycle::Change::Submitted { .. }
                | lifecycle::Change::Paused { .. }
                | lifecycle::Change::Resumed { .. }
                | lifecycle::Change::Aborted { .. }
                | lifecycle::Change::FaultNoted { .. }
                | lifecycle::Change::ActedOn { .. }
                | lifecycle::Change::RoutersBack { .. }
                | lifecycle::Change::Retried { .. }
                | lifecycle::Change::Replanned { .. }
                | lifecycle::Change::Ended { .. }
                | lifecycle::Change::Removed { .. } => Self::No,
            },
            Change::Rollout(change) => match change {
                rollout::Change::WavesOpened { .. } | rollout::Change::LevelOpened { .. } => Self::Step,
                rollout::Change::GateReached { .. }
                | rollout::Change::GateLeft { .. }
                | rollout::Change::ApprovalAsked { .. }
                | rollout::Change::Approved { .. }
                | rollout::Change::TurnoutAsked { .. }
                | rollout::Change::WinnerChosen { .. }
                | rollout::Change::SharesChosen { .. }
                | rollout::Change::WavesPlanned { .. } => Self::No,
            },
            Change::Members(change) => match change {
                members::Change::Stepped { child, step, .. } => Self::Child(*child, step),
                members::Change::Joined { .. }
                | members::Change::DeadlinesSeen { .. }
                | members::Change::Numbers { .. }
                | members::Change::LateKept { .. }
                | members::Change::Deployed { .. } => Self::No,
            },
            Change::Children(_)
            | Change::Stages(_)
            | Change::Parent(_)
            | Change::Analysis(_)
            | Change::Traffic(_)
            | Change::Workflows(_) => Self::No,
        }
    }
}

/// What began or ended with these changes, which are applied already.
pub(in crate::release) fn note(release: &Release, changes: &[&Change], now: Now) -> Vec<Change> {
    let mut found: Vec<(Option<u8>, u32, bool)> = Vec::new();
    let mut add = |of: (Option<u8>, u32, bool)| {
        if !found.contains(&of) {
            found.push(of);
        }
    };
    for change in changes.iter().filter(|change| change.release() == Some(release.key)) {
        match Timing::of(change) {
            Timing::No => {}
            Timing::Step => {
                let step = release.step();
                let last = release.times.iter().rev().find(|timed| timed.stage.is_none());
                if last.is_none_or(|last| last.number < step) {
                    if let Some(last) = last {
                        add((None, last.number, true));
                    }
                    add((None, step, false));
                }
            }
            Timing::Child(child, step) => {
                if let Step::Reported { slot, status: StageStatus::Completed, .. } = step
                    && let Some(stage) = slot.stage_index().and_then(|stage| u8::try_from(stage).ok())
                    && let Some(wave) = release.assignments.get(&child).map(|found| found.wave)
                    && release.timed(Some(stage), wave).is_some_and(|timed| timed.ended_ms.is_none())
                {
                    add((Some(stage), wave, true));
                }
                if let Some((stage, wave)) = release.at_work(child)
                    && release.timed(Some(stage), wave).is_none()
                {
                    add((Some(stage), wave, false));
                }
            }
        }
    }
    if !release.state.is_going() {
        return Vec::new();
    }
    let room = MAX_TIMES.saturating_sub(release.times.len());
    let (ended, began): (Vec<_>, Vec<_>) = found.into_iter().partition(|(.., ended)| *ended);
    let changes = ended.into_iter().chain(began.into_iter().take(room));
    changes
        .map(|(stage, number, ended)| {
            Change::Stages(stages::Change::Timed { release: release.key, stage, number, ended, now })
        })
        .collect()
}
