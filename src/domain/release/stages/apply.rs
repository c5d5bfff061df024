//! Folding a change of a stage in.

use super::Change;
use crate::release::{assignment::ReleaseEvent, state::State};

/// Folds one change in.
pub(in crate::release) fn apply(state: &mut State, change: &Change) {
    match change {
        Change::Ended { release, stage, now } => {
            state.fold(*release, ReleaseEvent::StageEnded { stage: *stage }, *now);
        }
        Change::Skipped { release, stage, then, now } => {
            state.fold(*release, ReleaseEvent::StageSkipped { stage: *stage, then: *then }, *now);
        }
        Change::UntestedRolledOut { release, now } => {
            state.fold(*release, ReleaseEvent::UntestedRolledOut, *now);
        }
        Change::Timed { release, stage, number, ended, now } => {
            state.with_release(*release, |release| release.apply_time(*stage, *number, *ended, *now));
        }
    }
}
