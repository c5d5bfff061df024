//! When the stages of a release were, for later releases that are compared with it (`PREVIOUS`).
//!
//! A stage is timed for each wave by itself, from the first child that begins it to the first that ends it well: in
//! between all who are in it are in it. The release as a whole is timed step by step: by waves, or by levels where all
//! children move together. Times are of the wall, for whoever is asked what was measured then knows no other.
//!
//! Invariant: they follow from changes alone, so that a restart finds them as they were. Not here: what is made of them
//! (`judging`).

use serde::{Deserialize, Serialize};

use super::{assignment::Step, change::Change, lifecycle, members, rollout, stages, state::Release};
use language::Order;
use model::{ChildKey, Now, StageStatus};

/// Most times of one release; later waves of a release with many are not timed.
pub const MAX_TIMES: usize = 256;

/// When a stage, or a step of the whole release, was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// `None`: a step of the whole release.
    pub stage: Option<u8>,
    /// The wave; of the whole release the step, from 0.
    pub number: u32,
    /// In milliseconds since 1970, like the end.
    pub began_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
}

/// The same as it is kept for later releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time {
    /// By its name, for later strategies may have others before it; `None`: a step of the whole release.
    pub stage: Option<String>,
    pub number: u32,
    pub began_ms: i64,
    pub ended_ms: i64,
}

impl Release {
    /// What there is to compare with of one of its functions, should it end now.
    pub fn times_of(&self, function: usize, now_ms: i64) -> Vec<Time> {
        let stage =
            |timed: &Timed| timed.stage.and_then(|stage| self.strategy.stages.get(usize::from(stage)));
        let is_meant = |timed: &&Timed| stage(timed).is_none_or(|stage| stage.function == function);
        let times = self.times.iter().filter(is_meant).map(|timed| Time {
            stage: stage(timed).map(|stage| stage.name.clone()),
            number: timed.number,
            began_ms: timed.began_ms,
            ended_ms: timed.ended_ms.unwrap_or(now_ms),
        });
        times.collect()
    }

    /// Which step the whole release is at.
    pub(super) fn step(&self) -> u32 {
        match self.strategy.rollout.as_ref().map(|rollout| &rollout.order) {
            None => 0,
            Some(Order::GlobalIncremental) => u32::from(self.gates.front()),
            Some(_) => self.gates.stand.waves.saturating_sub(1),
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
    pub(super) fn apply_time(&mut self, stage: Option<u8>, number: u32, ended: bool, now: Now) {
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

/// What began or ended with these changes, which are applied already.
pub(super) fn note(release: &Release, changes: &[&Change], now: Now) -> Vec<Change> {
    let mut found: Vec<(Option<u8>, u32, bool)> = Vec::new();
    let mut add = |of: (Option<u8>, u32, bool)| {
        if !found.contains(&of) {
            found.push(of);
        }
    };
    for change in changes.iter().filter(|change| change.release() == Some(release.key)) {
        match change {
            Change::Lifecycle(lifecycle::Change::Started { .. })
            | Change::Rollout(rollout::Change::WavesOpened { .. } | rollout::Change::LevelOpened { .. }) => {
                let step = release.step();
                let last = release.times.iter().rev().find(|timed| timed.stage.is_none());
                if last.is_none_or(|last| last.number < step) {
                    if let Some(last) = last {
                        add((None, last.number, true));
                    }
                    add((None, step, false));
                }
            }
            Change::Members(members::Change::Stepped { child, step, .. }) => {
                if let Step::Reported { slot, status: StageStatus::Completed, .. } = step
                    && let Some(stage) = slot.stage_index().and_then(|stage| u8::try_from(stage).ok())
                    && let Some(wave) = release.assignments.get(child).map(|found| found.wave)
                    && release.timed(Some(stage), wave).is_some_and(|timed| timed.ended_ms.is_none())
                {
                    add((Some(stage), wave, true));
                }
                if let Some((stage, wave)) = release.at_work(*child)
                    && release.timed(Some(stage), wave).is_none()
                {
                    add((Some(stage), wave, false));
                }
            }
            _ => {}
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
