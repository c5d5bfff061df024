//! Which variation of a release's service serves alone in the end, where an operator wants another one than the stages lead to.
//!
//! It is told to each agent that walks through the release, whenever it asks about a stage; so it is known there before the last stage
//! may end, and all routers decide alike. To keep it so:
//! - it is chosen before anybody was told to end a stage behind which a variation takes over;
//! - whoever has a part says that it understands it; who doesn't, and comes later, is not told to end a stage.

use language::{Action, Stage};
use model::{ChildKey, ChildStatus, FEATURE_WINNER, Now, StageStatus};

use crate::release::{
    assignment::Assignment,
    change::Change,
    command::{Decision, NoReply, Refusal, Reply},
    decide::checks::{another_fact, find, held, names_feature, wrong},
    rollout,
    state::{Release, Snapshot, State},
};

/// Whether a child can be told which variation wins.
fn knows(state: &Snapshot, child: ChildKey) -> bool {
    names_feature(state, child, FEATURE_WINNER)
}

pub(super) fn decide(state: &State, id: &str, variation: &str, now: Now) -> Result<Decision, NoReply> {
    let release = find(state, id)?;
    if release.parent.is_some() {
        return Err(held(release, "which variation wins".to_owned()));
    }
    if !release.is_under_way() {
        return Err(wrong(release, "a variation can be promoted while the release is under way"));
    }
    let [service] = &release.strategy.services[..] else {
        return Err(wrong(release, "a variation is promoted by name where the release leads one service"));
    };
    let which = service.variations.iter().position(|one| one.name.as_str() == variation);
    let unknown =
        || Refusal::UnknownVariation { release: release.id.clone(), variation: variation.to_owned() };
    let which = which.ok_or_else(unknown)?;
    if which == 0 {
        return Err(wrong(release, "the stable variation can't win: abort it, and everything is taken back"));
    }
    if release.winner() == Some(which) {
        return Ok(Decision::unchanged(Reply::Done));
    }
    if let Some(why) = release.why_no_other_wins(state) {
        let (release, variation) = (release.id.clone(), variation.to_owned());
        return Err(Refusal::CanNotWin { release, variation, why }.into());
    }
    another_fact(release)?;
    let (release, variation) = (release.key, which as u8);
    let change = rollout::Change::WinnerChosen { release, variation, now };
    Ok(Decision::new(vec![Change::Rollout(change)], Reply::Done))
}

impl Release {
    /// The variation that somebody chose, by its place in the strategy.
    pub fn chosen_winner(&self) -> Option<usize> {
        self.facts.iter().rev().find_map(|dated| dated.fact.winner()).map(usize::from)
    }

    /// The variation of the first service that serves alone if the release goes well: the chosen one, else the one that has most beside
    /// the stable one in each stage that leads to the end. `None`: the stages lead to several, or there is no service.
    pub fn winner(&self) -> Option<usize> {
        if let Some(chosen) = self.chosen_winner() {
            return Some(chosen);
        }
        let service = (!self.strategy.services.is_empty()).then_some(self.strategy.functions.len())?;
        let own = self.strategy.stages.iter().filter(|stage| stage.subject == service);
        let mut last = own.filter(|stage| stage.on_success == Action::Rollout).map(Stage::most);
        let first = last.next()?;
        last.all(|other| other == first).then_some(first)
    }

    /// What the chosen variation is called, for a child that leads its calls and can be told so.
    pub(in crate::release) fn winner_for(&self, state: &Snapshot, child: ChildKey) -> Option<String> {
        let service = self.strategy.services.first()?;
        let chosen = service.variations.get(self.chosen_winner()?)?;
        knows(state, child).then(|| chosen.name.to_string())
    }

    /// Whether a child would have another variation win than the chosen one, since it can't be told.
    pub(in crate::release) fn knows_no_winner(
        &self,
        state: &Snapshot,
        child: ChildKey,
        assignment: &Assignment,
    ) -> bool {
        self.chosen_winner().is_some() && self.leads_service(assignment) && !knows(state, child)
    }

    fn leads_service(&self, assignment: &Assignment) -> bool {
        assignment.current_functions(&self.strategy).contains(self.strategy.functions.len())
    }

    /// Why no other variation can win any more than the one that would.
    fn why_no_other_wins(&self, state: &Snapshot) -> Option<String> {
        let service = self.strategy.functions.len();
        let own = self.strategy.stages.iter().filter(|stage| stage.subject == service);
        if let Some(stage) = own.into_iter().find(|stage| stage.on_failure == Action::Rollout) {
            return Some(format!("stage {:?} rolls out by itself where it fails", stage.name));
        }
        let parts = self.assignments.range(..).filter(|(_, assignment)| self.leads_service(assignment));
        parts.into_iter().find_map(|(child, assignment)| {
            let id = || state.children.get(*child).map(|child| child.id.to_string()).unwrap_or_default();
            match assignment.status {
                ChildStatus::No | ChildStatus::Failed => None,
                ChildStatus::Todo | ChildStatus::Doing if !knows(state, *child) => Some(format!(
                    "{} can't be told which variation wins (it doesn't name the feature {FEATURE_WINNER:?})",
                    id()
                )),
                ChildStatus::Todo | ChildStatus::Doing => {
                    self.is_past_choice(assignment).then(|| format!("{} ends its last stage already", id()))
                }
                ChildStatus::Done => Some(format!("another one has taken over at {}", id())),
            }
        })
    }

    /// Whether it may have decided who serves alone.
    fn is_past_choice(&self, assignment: &Assignment) -> bool {
        if assignment.slot.rollout_index().is_some() {
            return true;
        }
        let stage = assignment.slot.stage_index().and_then(|at| self.strategy.stages.get(at));
        let is_last = stage.is_some_and(|stage| stage.on_success == Action::Rollout);
        is_last && assignment.stage_status >= StageStatus::ShouldEnd
    }
}
