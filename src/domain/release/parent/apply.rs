//! Folding a change of what was said to or by the parent in.

use super::{Change, ParentOffer};
use crate::release::{assignment::ReleaseEvent, manager::Agents, state::State};
use model::ReleaseKey;

/// Folds one change in.
pub(in crate::release) fn apply(state: &mut State, change: &Change) {
    match change {
        Change::Held { release, held } => {
            with_parent(state, *release, |parent, _| parent.held = *held);
        }
        Change::StageReported { release, stage, status, .. } => {
            with_parent(state, *release, |parent, agents| parent.report(*stage, *status, agents));
        }
        Change::Recounted { release } => with_parent(state, *release, |parent, agents| {
            if let Some(said) = &mut parent.said {
                (said.agents, said.recounts) = (agents, said.recounts.saturating_add(1));
            }
        }),
        Change::Continued { release, offer } => with_parent(state, *release, |parent, _| {
            (parent.offer, parent.reported, parent.said) = (offer.clone(), 0, None);
        }),
        Change::UndoAwaited { release, offer } => {
            with_parent(state, *release, |parent, _| parent.undos.push(offer.clone()));
        }
        Change::UndoReported { release, offer, .. } => {
            with_parent(state, *release, |parent, _| parent.undos.retain(|other| other != offer));
        }
        Change::Failed { release, why } => with_parent(state, *release, |parent, _| {
            parent.failures = parent.failures.saturating_add(1);
            parent.failed = Some(why.clone());
        }),
        Change::FailuresAccepted { release, now } => {
            with_parent(state, *release, |parent, _| parent.failed = None);
            let level = state.release(*release).map_or(0, |release| release.gates.stand.level);
            state.fold(*release, ReleaseEvent::FailuresAccepted { level }, *now);
        }
        // Kept in the store alone.
        Change::Forwarded { .. } => {}
    }
}

/// Changes what was said of a release that came from above, with what became of its agents.
fn with_parent(state: &mut State, key: ReleaseKey, change: impl FnOnce(&mut ParentOffer, Agents)) {
    state.with_release(key, |release| {
        let agents = release.agents();
        if let Some(parent) = &mut release.parent {
            change(parent, agents);
        }
    });
}
