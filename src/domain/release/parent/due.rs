//! What has to be said to the parent.

use super::Change;
use crate::release::{
    change::Change as StateChange,
    state::{End, Release, ReleaseState, State},
};
use model::{Now, StageStatus};

/// What has to be said to the parent now.
pub(in crate::release) fn due(release: &Release, now: Now) -> Vec<StateChange> {
    let Some(parent) = &release.parent else { return Vec::new() };
    let path = release.strategy.success_path();
    if release.state.is_over() && usize::from(parent.reported) >= path.len() {
        // All is said. Later some prove the way back, or were tried again.
        let stands_otherwise = parent.said.is_some_and(|said| said.agents != release.agents());
        return stands_otherwise
            .then_some(StateChange::Parent(Change::Recounted { release: release.key }))
            .into_iter()
            .collect();
    }
    let left = path.iter().skip(usize::from(parent.reported));
    let said = |(stage, status): (&usize, StageStatus)| {
        StateChange::Parent(Change::StageReported { release: release.key, stage: *stage as u8, status, now })
    };
    match release.state {
        // What failed was the stage that was not reported yet; the later ones never were.
        ReleaseState::Over { end: End::RolledBack | End::Aborted, .. } => {
            left.take(1).map(|stage| said((stage, StageStatus::Failure))).collect()
        }
        ReleaseState::Over { .. } => left.map(|stage| said((stage, StageStatus::Completed))).collect(),
        ReleaseState::Running if release.is_between_waves() => {
            left.map(|stage| said((stage, StageStatus::Completed))).collect()
        }
        ReleaseState::Running if release.counts.trailing == 0 => {
            // The last stage is over when what follows it is.
            let before_last = path.len().saturating_sub(1).saturating_sub(usize::from(parent.reported));
            let front = release.gates.front();
            left.take(before_last)
                .take_while(|stage| release.gates.levels.of_stage(**stage) < front)
                .map(|stage| said((stage, StageStatus::Completed)))
                .collect()
        }
        ReleaseState::Running
        | ReleaseState::Planned
        | ReleaseState::Paused(_)
        | ReleaseState::AwaitingApproval { .. }
        | ReleaseState::RollingBack { .. } => Vec::new(),
    }
}

/// The orders to take a release back that can be answered now: no other release is still being taken back by the same.
pub(in crate::release) fn undone(state: &State, release: &Release) -> Vec<StateChange> {
    if !(release.state.is_over() && release.state.is_taken_back()) {
        return Vec::new();
    }
    let awaited = release.parent.iter().flat_map(|parent| &parent.undos);
    let others = |offer: &String| {
        let is_same = |other: &&Release| {
            let undos = other.parent.as_ref().map(|parent| parent.undos.as_slice()).unwrap_or_default();
            other.key != release.key && undos.contains(offer)
        };
        !state.releases.values().filter(is_same).any(|other| !other.state.is_over())
    };
    let key = release.key;
    let unconfirmed = release.counts.agents.unconfirmed;
    awaited
        .filter(|offer| others(offer))
        .map(|offer| {
            StateChange::Parent(Change::UndoReported { release: key, offer: offer.clone(), unconfirmed })
        })
        .collect()
}
