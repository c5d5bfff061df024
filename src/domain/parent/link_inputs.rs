//! What the link has to know of the state.

use std::collections::BTreeMap;

use crate::release::{parent::Waiting, state::Snapshot};
use model::ReleaseId;

/// A release that came from the parent and is in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromParent {
    /// What it is called here.
    pub release: ReleaseId,
    /// The stage of which the parent has to be asked.
    pub waiting: Option<Waiting>,
    /// How often that stage is reported while it goes on, in milliseconds; `None`: nobody above looks before it is over.
    pub interim_ms: Option<u64>,
    pub pause: PauseState,
    /// Stages that are passed over here.
    pub skipped: Vec<String>,
}

/// Whether a release goes on, as far as the parent may change that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseState {
    /// As far as the parent goes, it goes on.
    No,
    /// The parent said so; somebody here may have paused it, too.
    Held,
    /// There is nothing to be paused.
    Over,
}

/// What the link has to know of the state: by the parent's offer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkInputs(pub BTreeMap<String, FromParent>);

impl LinkInputs {
    /// Looks at the open releases alone.
    pub fn of(state: &Snapshot) -> Self {
        let from_parent = state.releases.values().filter_map(|release| {
            let parent = release.parent.as_ref()?;
            let waiting = release.waits_for_parent();
            let pause = match () {
                () if !release.may_end_well() => PauseState::Over,
                () if release.is_held_by_parent() => PauseState::Held,
                () => PauseState::No,
            };
            let interim = waiting.as_ref().and_then(|of| release.strategy.interim(usize::from(of.stage)));
            let interim_ms = interim.filter(|_| release.is_running()).map(|interim| interim.every_ms);
            let skipped = release.skipped_names();
            let from_parent = FromParent { release: release.id.clone(), waiting, interim_ms, pause, skipped };
            Some((parent.offer.clone(), from_parent))
        });
        Self(from_parent.collect())
    }
}
