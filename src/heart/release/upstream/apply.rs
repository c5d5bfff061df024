//! Folding a change of what was said to or by the manager above in.

use super::{Change, Upstream};
use crate::release::{manager::Agents, state::State};
use model::ReleaseKey;

/// Folds one change in.
pub(in crate::release) fn apply(state: &mut State, change: &Change) {
    match change {
        Change::Held { release, held } => {
            with_upstream(state, *release, |upstream, _| upstream.held = *held);
        }
        Change::StageReported { release, stage, status, .. } => {
            with_upstream(state, *release, |upstream, agents| upstream.report(*stage, *status, agents));
        }
        Change::Recounted { release } => with_upstream(state, *release, |upstream, agents| {
            if let Some(said) = &mut upstream.said {
                (said.agents, said.recounts) = (agents, said.recounts.saturating_add(1));
            }
        }),
        Change::Continued { release, offer } => with_upstream(state, *release, |upstream, _| {
            (upstream.offer, upstream.reported, upstream.said) = (offer.clone(), 0, None);
        }),
        Change::UndoAwaited { release, offer } => {
            with_upstream(state, *release, |upstream, _| upstream.undos.push(offer.clone()));
        }
        Change::UndoReported { release, offer, .. } => {
            with_upstream(state, *release, |upstream, _| upstream.undos.retain(|other| other != offer));
        }
        // Kept in the store alone.
        Change::Forwarded { .. } => {}
    }
}

/// Changes what was said of a release that came from above, with what became of its agents.
fn with_upstream(state: &mut State, key: ReleaseKey, change: impl FnOnce(&mut Upstream, Agents)) {
    state.with_release(key, |release| {
        let agents = release.agents();
        if let Some(upstream) = &mut release.upstream {
            change(upstream, agents);
        }
    });
}
