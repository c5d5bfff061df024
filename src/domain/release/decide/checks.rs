//! What most decisions about a release ask first, and how they refuse.

use crate::release::{
    command::{NoReply, Refusal},
    state::{Release, Snapshot, State},
};
use model::ChildKey;

pub(in crate::release) fn find<'a>(state: &'a State, id: &str) -> Result<&'a Release, NoReply> {
    let known = state.known.get(id).ok_or_else(|| Refusal::UnknownRelease(id.to_owned()))?;
    state.release(known.key).ok_or(NoReply::Missing(known.key))
}

pub(in crate::release) fn wrong(release: &Release, why: &'static str) -> NoReply {
    Refusal::WrongState { release: release.id.clone(), state: release.state.name(), why }.into()
}

/// What only the parent decides on, for it planned the release.
pub(in crate::release) fn held(release: &Release, what: String) -> NoReply {
    Refusal::HeldByParent { release: release.id.clone(), what }.into()
}

/// Most pauses and ends of stages in one release: each is a fact that every assignment folds in.
const MAX_FACTS: usize = 10_000;

pub(in crate::release) fn another_fact(release: &Release) -> Result<(), Refusal> {
    let what = "pauses, ended stages and changed shares of a release";
    let refusal = Refusal::Limit { what, limit: MAX_FACTS };
    if release.facts.len() >= MAX_FACTS { Err(refusal) } else { Ok(()) }
}

/// The place of a stage in the strategy.
pub(in crate::release) fn stage_of(release: &Release, stage: &str) -> Result<usize, Refusal> {
    let unknown = || Refusal::UnknownStage { offer: release.id.to_string(), stage: stage.to_owned() };
    release.strategy.stages.iter().position(|found| found.name == stage).ok_or_else(unknown)
}

/// Whether an agent says that it understands something. A manager below speaks for itself, and not for those that it leads.
pub(in crate::release) fn names_feature(state: &Snapshot, child: ChildKey, feature: &str) -> bool {
    let profile = state.children.get(child).and_then(|child| child.profile.as_deref());
    profile.is_some_and(|profile| !profile.kind.is_manager() && profile.capabilities.has(feature))
}
