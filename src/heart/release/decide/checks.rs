//! What most decisions about a release ask first, and how they refuse.

use crate::release::{
    command::Refusal,
    state::{Release, State},
};

pub(in crate::release) fn find<'a>(state: &'a State, id: &str) -> Result<&'a Release, Refusal> {
    let known = state.known.get(id).ok_or_else(|| Refusal::UnknownRelease(id.to_owned()))?;
    state.release(known.key).ok_or(Refusal::NotInMemory(known.key))
}

pub(in crate::release) fn wrong(release: &Release, why: &'static str) -> Refusal {
    Refusal::WrongState { release: release.id.clone(), state: release.state.name(), why }
}

/// What only the parent decides on, for it planned the release.
pub(in crate::release) fn held(release: &Release, what: String) -> Refusal {
    Refusal::HeldByParent { release: release.id.clone(), what }
}

/// Most pauses and ends of stages in one release: each is a fact that every assignment folds in.
const MAX_FACTS: usize = 10_000;

pub(in crate::release) fn another_fact(release: &Release) -> Result<(), Refusal> {
    let refusal = Refusal::Limit { what: "pauses and ended stages of a release", limit: MAX_FACTS };
    if release.facts.len() >= MAX_FACTS { Err(refusal) } else { Ok(()) }
}
