//! Who takes part in a release, in which wave, and with which functions.

use std::collections::BTreeMap;

use super::Membership;
use crate::{
    plan::{self, Plan},
    release::{
        assignment::FunctionSet,
        command::LastSeen,
        liveness_check::{self, ReportedLiveness, SilenceLimits},
        manager::Planned,
        state::{Release, Snapshot},
    },
};
use language::{Group, Strategy};
use model::{ChildKey, Exclusion, Now};

/// Who takes part in a release that starts now, with what managers below said.
pub fn membership(
    state: &Snapshot,
    seen: &dyn LastSeen,
    strategy: &Strategy,
    told: &ReportedLiveness,
    now: Now,
) -> Membership {
    let limits = SilenceLimits::of_strategy(strategy);
    let liveness =
        |child: ChildKey, _: &plan::Entry| liveness_check::of_child(state, seen, told, limits, child, now);
    let plan = plan::plan_of(strategy, state, liveness);
    let excluded = excluded(&plan);
    let waves = waves(&plan);
    let managers = managers(state, &plan);
    let lacks = lacks(strategy, &plan, &managers);
    let in_place = in_place(state, strategy, &plan, &lacks);
    let has_turns = strategy
        .rollout
        .as_ref()
        .is_some_and(|rollout| rollout.order.is_in_waves() || rollout.order.is_by_location());
    let silent = plan.liveness_checks.iter().map(|liveness| liveness.silent).fold(0, u32::saturating_add);
    Membership {
        members: plan.members.into(),
        excluded,
        waves,
        managers,
        in_place,
        lacks,
        left_out: if has_turns { silent } else { 0 },
    }
}

/// Those of the members that are managers themselves, with their agents and the waves of these.
fn managers(state: &Snapshot, plan: &Plan) -> BTreeMap<ChildKey, Planned> {
    let planned = |(at, child): (usize, &ChildKey)| {
        state.children.get(*child).filter(|record| record.kind().is_manager())?;
        let agents = plan.liveness_checks.get(at).map_or(0, |liveness| liveness.all());
        let mut last = 0;
        let quotas = (0..plan.waves.len()).filter_map(|wave| {
            let quota = plan.quota(at, wave);
            (quota > std::mem::replace(&mut last, quota)).then_some((wave as u32, quota))
        });
        Some((*child, Planned { agents, quotas: quotas.collect() }))
    };
    plan.members.iter().enumerate().filter_map(planned).collect()
}

/// The functions that each member does not run; nothing where all run all. A manager below sees to it for its own children, and of a
/// hybrid has nothing to do with what is the other group's.
fn lacks(strategy: &Strategy, plan: &Plan, managers: &BTreeMap<ChildKey, Planned>) -> Vec<FunctionSet> {
    if plan.parts.is_empty() {
        return Vec::new();
    }
    let lacks = |(at, child): (usize, &ChildKey)| {
        let (part, is_manager) = (plan.part(at), managers.contains_key(child));
        FunctionSet(if is_manager { part.of_others(strategy) } else { part.lacks(strategy) })
    };
    plan.members.iter().enumerate().map(lacks).collect()
}

/// The agents that are led in place.
fn in_place(state: &Snapshot, strategy: &Strategy, plan: &Plan, lacks: &[FunctionSet]) -> Vec<ChildKey> {
    let lacks_at = |at: usize| lacks.get(at).copied().unwrap_or_default();
    let members = plan.members.iter().enumerate();
    members
        .filter(|(at, child)| is_in_place(state, strategy, **child, lacks_at(*at)))
        .map(|(_, child)| *child)
        .collect()
}

/// Whether an agent is handed the whole strategy. One that doesn't run all of it is led stepwise, so that nobody has to agree
/// with it on what is left of the strategy. What is the other group's of a hybrid it has nothing to do with.
pub(in crate::release) fn is_in_place(
    state: &Snapshot,
    strategy: &Strategy,
    child: ChildKey,
    lacks: FunctionSet,
) -> bool {
    let others = |group| FunctionSet(strategy.subjects_of(group));
    let is_one_group = Group::ALL.map(others).contains(&lacks) && strategy.is_hybrid();
    (lacks.is_empty() || is_one_group)
        && state.children.get(child).is_some_and(|record| record.leads_itself())
}

/// What one child does not run.
pub(in crate::release) fn lacks_of(state: &Snapshot, release: &Release, child: ChildKey) -> FunctionSet {
    let is_manager = state.children.get(child).is_some_and(|record| record.kind().is_manager());
    match plan::fit(&release.strategy, state, None, child) {
        Some(Ok(part)) if is_manager => FunctionSet(part.of_others(&release.strategy)),
        Some(Ok(part)) => FunctionSet(part.lacks(&release.strategy)),
        Some(Err(_)) | None => FunctionSet::EMPTY,
    }
}

/// The wave of each member; a location is a wave of one.
fn waves(plan: &Plan) -> Vec<u32> {
    if !plan.waves.is_empty() {
        return (0..plan.members.len()).map(|at| plan.wave(at) as u32).collect();
    }
    let mut waves = vec![0; plan.sequence.len()];
    let mut first = 0;
    for half in plan.sequence_by_group() {
        let mut last = first;
        for (wave, at) in (first..).zip(half.turns) {
            if let Some(place) = waves.get_mut(*at as usize) {
                // Who is silent has a turn together with the others that are, last.
                *place = u32::min(wave, first + half.live);
                last = *place;
            }
        }
        first = last + 1;
    }
    waves
}

/// How many take no part, by reason.
pub(super) fn excluded(plan: &Plan) -> Vec<(Exclusion, u32)> {
    let mut excluded: BTreeMap<Exclusion, u32> = BTreeMap::new();
    for (why, tally) in &plan.excluded {
        *excluded.entry(why.exclusion()).or_default() += tally.children;
    }
    excluded.into_iter().collect()
}
