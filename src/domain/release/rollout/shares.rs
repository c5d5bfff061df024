//! Another share of the calls for what a stage tries, while the release goes on. The stage stays the one that it is: nothing begins or ends by
//! it, whoever is in it moves the calls that the change moves, and what it has counted goes on.
//!
//! It is told to each agent that walks through the release whenever it asks about a stage, and at once where that question waits. Who
//! fetches the offer from then on has it in the text. So a router that loses its state, or joins late, has the shares of the others. To
//! keep all routers at one share:
//! - it is chosen before anybody has the stage behind itself or was told to end it, for nobody goes back to a stage; stages that begin
//!   together share calls out until the last of them ends, so there it is that one that counts;
//! - whoever has a part says that it understands it.
//!
//! Shares of several stages are chosen at once, or none of them is: in one commit, and told in one answer. So services that are tried together
//! never have the new share of one and the old one of another for longer than a router takes to put one table in force.
//!
//! A stage whose shares change can't be judged as if they had not: an analysis compares calls that were given out by one split, and what
//! limits are held against is another thing where the new variation gets no calls. Both are refused.
//!
//! Deliberately not here: more than two variations, and what came from above, where the parent decides on shares.

use std::{collections::BTreeMap, sync::Arc};

use language::Strategy;
use model::{ChildKey, ChildStatus, FEATURE_SHARES, Now, StageStatus};

use crate::release::{
    assignment::{Assignment, Dated, ReleaseEvent, StepIndex},
    change::Change,
    command::{Decision, NoReply, Refusal, Reply},
    decide::checks::{another_fact, find, held, names_feature, stage_of, wrong},
    rollout,
    state::{Release, Snapshot, State},
};

pub(super) fn decide(
    state: &State,
    id: &str,
    shares: &BTreeMap<String, u16>,
    now: Now,
) -> Result<Decision, NoReply> {
    let (release, mut changes) = (find(state, id)?, Vec::new());
    for (stage, new) in shares {
        changes.extend(choice(state, release, stage, *new, now)?);
    }
    let is_so = changes.is_empty();
    Ok(if is_so { Decision::unchanged(Reply::Done) } else { Decision::new(changes, Reply::Done) })
}

/// `None`: the stage has this share.
fn choice(
    state: &State,
    release: &Release,
    stage: &str,
    new: u16,
    now: Now,
) -> Result<Option<Change>, NoReply> {
    if release.parent.is_some() {
        return Err(held(release, format!("the shares of stage {stage:?}")));
    }
    if !release.state.is_going() {
        return Err(wrong(
            release,
            "shares can be changed while a release runs: resume it first if it is paused",
        ));
    }
    let index = stage_of(release, stage)?;
    let before = release.strategy.stages.get(index);
    let Some((before, after)) = before.and_then(|before| Some((before, before.with_share(new)?))) else {
        let why = "shares of at most 100 % can be changed in a stage of a service with two variations";
        return Err(wrong(release, why));
    };
    if before.shares == after.shares {
        return Ok(None);
    }
    if release.strategy.analyses().next().is_some() {
        let why =
            "an analysis compares calls that were given out by the same shares, so those of its stages stay";
        return Err(wrong(release, why));
    }
    if before.is_judged_by_calls() != after.is_judged_by_calls() {
        let why =
            "a stage that is judged by calls has some of them: its share can't change from 0 % or to 0 %";
        return Err(wrong(release, why));
    }
    if let Some(why) = release.why_no_other_shares(state, index) {
        let (release, stage) = (release.id.clone(), stage.to_owned());
        return Err(Refusal::CanNotShare { release, stage, why }.into());
    }
    if !release.has_chosen(index as u8) {
        another_fact(release)?;
    }
    let change = rollout::Change::SharesChosen { release: release.key, stage: index as u8, new, now };
    Ok(Some(Change::Rollout(change)))
}

/// A strategy as these facts have changed its shares.
#[must_use]
pub fn shared(strategy: Strategy, facts: &[Dated]) -> Strategy {
    let chosen = facts.iter().filter_map(|dated| dated.fact.shares());
    chosen.fold(strategy, |strategy, (stage, new)| {
        strategy.with_share(usize::from(stage), new).unwrap_or(strategy)
    })
}

impl Release {
    pub(super) fn share(&mut self, stage: u8, new: u16) {
        if let Some(shared) = self.strategy.with_share(usize::from(stage), new) {
            self.strategy = Arc::new(shared);
        }
    }

    fn has_chosen(&self, stage: u8) -> bool {
        self.facts.iter().any(|dated| is_of(dated, stage))
    }

    /// Notes other shares in the place of those of the stage that were chosen before: only the last ones count. False: there are none.
    pub(super) fn choose_again(&mut self, stage: u8, new: u16, now: Now) -> bool {
        let dated = Dated { fact: ReleaseEvent::SharesChosen { stage, new }, at: self.at(now) };
        let before = self.facts.iter_mut().find(|dated| is_of(dated, stage));
        before.map(|before| *before = dated).is_some()
    }

    /// What was chosen, by the names of stages, for a child that can be told so.
    pub(in crate::release) fn shares_for(&self, state: &Snapshot, child: ChildKey) -> BTreeMap<String, u16> {
        if !knows(state, child) {
            return BTreeMap::new();
        }
        let chosen = self.facts.iter().filter_map(|dated| dated.fact.shares());
        let named = chosen.filter_map(|(stage, new)| {
            Some((self.strategy.stages.get(usize::from(stage))?.name.clone(), new))
        });
        named.collect()
    }

    /// Why not all can come to other shares of a stage any more.
    fn why_no_other_shares(&self, state: &Snapshot, stage: usize) -> Option<String> {
        // What begins together shares calls out until the last of it ends.
        let last = *self.strategy.together(stage).end();
        if self.skipped().any(|skipped| usize::from(skipped) == last) {
            return Some("it was skipped".to_owned());
        }
        let subject = self.strategy.stages.get(stage)?.subject;
        let leads = |part: &Assignment| part.current_functions(&self.strategy).contains(subject);
        let parts = self.assignments.range(..).filter(|(_, part)| leads(part));
        parts.into_iter().find_map(|(child, part)| {
            let id = || state.children.get(*child).map(|child| child.id.to_string()).unwrap_or_default();
            match part.status {
                ChildStatus::No | ChildStatus::Failed => None,
                ChildStatus::Todo | ChildStatus::Doing if !part.is_in_place() => Some(format!(
                    "{} leads routers of its own, which can't be told of other shares yet",
                    id()
                )),
                ChildStatus::Todo | ChildStatus::Doing if !knows(state, *child) => Some(format!(
                    "{} can't change shares during a stage (it doesn't name the feature {FEATURE_SHARES:?})",
                    id()
                )),
                ChildStatus::Todo | ChildStatus::Doing => {
                    is_past(part, last).then(|| format!("{} is at its end already", id()))
                }
                ChildStatus::Done => Some(format!("{} is at its end already", id())),
            }
        })
    }
}

fn is_of(dated: &Dated, stage: u8) -> bool {
    dated.fact.shares().is_some_and(|(of, _)| of == stage)
}

fn knows(state: &Snapshot, child: ChildKey) -> bool {
    names_feature(state, child, FEATURE_SHARES)
}

/// Whether a child has ended a stage, may end it, or has failed in it and keeps its shares.
fn is_past(part: &Assignment, stage: usize) -> bool {
    let is_at = part.slot.stage_index() == Some(stage);
    let is_ending = is_at && (part.stage_status >= StageStatus::ShouldEnd || part.is_undecided());
    is_ending || part.slot.rollout_index().is_some() || part.mark(StepIndex::stage(stage)).is_some()
}
