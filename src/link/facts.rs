//! What the link has to know of the state.

use std::collections::BTreeMap;

use crate::{
    model::ReleaseId,
    release::{state::State, upstream::Waiting},
};

/// A release that came from the parent and is in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromAbove {
    /// What it is called here.
    pub release: ReleaseId,
    /// The stage of which the parent has to be asked.
    pub waiting: Option<Waiting>,
    /// It is paused because the parent said so.
    pub is_held: bool,
}

/// What the link has to know of the state: by the parent's offer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts(pub BTreeMap<String, FromAbove>);

impl Facts {
    /// Looks at the open releases alone.
    pub fn of(state: &State) -> Self {
        let from_above = state.releases.values().filter_map(|release| {
            let upstream = release.upstream.as_ref()?;
            let waiting = release.waits_above();
            let from_above = FromAbove { release: release.id.clone(), waiting, is_held: false };
            Some((upstream.offer.clone(), from_above))
        });
        Self(from_above.collect())
    }
}
