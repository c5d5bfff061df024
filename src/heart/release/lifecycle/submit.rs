//! A developer submits a release.

use std::collections::BTreeMap;

use super::decide::roll_back;
use crate::{
    plan::{self, Plan},
    release::{
        assignment::FunctionSet,
        change::Change,
        command::{Decision, Outlook, Refusal, Reply, Seen},
        ending::{Cause, Ending},
        lifecycle::{self, Membership, Submitted},
        manager::Planned,
        offer::OfferName,
        state::{End, Release, ReleaseState, Snapshot, State},
        turnout::{self, Turnouts},
    },
};
use language::{OnConflict, Rollout, Strategy};
use model::{ChildKey, ChildKind, Exclusion, Now, ReleaseId, ReleaseKey};

pub(in crate::release) fn decide(state: &State, submitted: &Submitted, dry_run: bool, now: Now) -> Decision {
    if let Some(known) = state.known.get(&submitted.id) {
        if known.digest != submitted.digest {
            return Decision::refused(Refusal::IdTaken(submitted.id.clone()));
        }
        let outlook = outlook(state, &submitted.strategy, known.key, now);
        return Decision::unchanged(Reply::Submitted { created: false, outlook });
    }
    let key = ReleaseKey(state.next_release);
    if let Err(refusal) = check(state, submitted, key) {
        return Decision::refused(refusal);
    }
    let outlook = outlook(state, &submitted.strategy, key, now);
    let reply = Reply::Submitted { created: true, outlook };
    if dry_run {
        return Decision::unchanged(reply);
    }
    let mut changes = Vec::new();
    if !submitted.deferred {
        changes.extend(supersede(state, &submitted.strategy, &submitted.id, key, now));
    }
    changes.push(Change::Lifecycle(lifecycle::Change::Submitted {
        release: key,
        submitted: Box::new(submitted.clone()),
        now,
    }));
    Decision::new(changes, reply)
}

/// Takes back what a release that starts now supersedes, if it says so.
pub(in crate::release) fn supersede(
    state: &State,
    strategy: &Strategy,
    id: &ReleaseId,
    key: ReleaseKey,
    now: Now,
) -> Vec<Change> {
    if strategy.on_conflict != OnConflict::Supersede {
        return Vec::new();
    }
    let reason = format!("superseded by release {id}");
    let not_yet =
        |earlier: &&Release| !earlier.deferred && !matches!(earlier.state, ReleaseState::RollingBack { .. });
    let earlier = state.conflicts(strategy, key).filter(not_yet);
    let ending = |reason: &String| Ending::new(Cause::Superseded, reason.clone());
    earlier.flat_map(|earlier| roll_back(state, earlier, ending(&reason), End::Aborted, now)).collect()
}

/// Refuses a release that starts now and wants no other beside it.
pub(in crate::release) fn refuse_conflicts(
    state: &State,
    strategy: &Strategy,
    key: ReleaseKey,
) -> Result<(), Refusal> {
    if strategy.on_conflict != OnConflict::Refuse {
        return Ok(());
    }
    let others = state.conflicts(strategy, key).filter(|other| !other.deferred);
    let with: Vec<_> = others.map(|other| other.id.clone()).collect();
    if with.is_empty() { Ok(()) } else { Err(Refusal::Conflict(with)) }
}

fn check(state: &State, submitted: &Submitted, key: ReleaseKey) -> Result<(), Refusal> {
    let id = &submitted.id;
    let confused = |other: &&ReleaseId| {
        OfferName::could_be_offer_of(id.as_str(), other.as_str())
            || OfferName::could_be_offer_of(other.as_str(), id.as_str())
    };
    if let Some(other) = state.known.keys().find(confused) {
        return Err(Refusal::IdAmbiguous { id: id.clone(), other: other.clone() });
    }
    let limit = state.settings.max_open_releases;
    if state.unfinished_releases() >= limit {
        return Err(Refusal::Limit { what: "unfinished releases", limit });
    }
    if submitted.deferred { Ok(()) } else { refuse_conflicts(state, &submitted.strategy, key) }
}

fn outlook(state: &State, strategy: &Strategy, key: ReleaseKey, now: Now) -> Outlook {
    // Nobody was noticed, and nobody is silent.
    let plan = plan::plan(strategy, &state.shared);
    Outlook {
        advice: plan::advise(strategy, &state.shared, &plan),
        participants: plan.members.len() as u32,
        excluded: excluded(&plan),
        waits_for: state.goes_before(strategy, key, now).map(|release| release.id.clone()).collect(),
    }
}

/// How many take no part, by reason.
fn excluded(plan: &Plan) -> Vec<(Exclusion, u32)> {
    let mut excluded: BTreeMap<Exclusion, u32> = BTreeMap::new();
    for (why, tally) in &plan.excluded {
        *excluded.entry(why.exclusion()).or_default() += tally.children;
    }
    excluded.into_iter().collect()
}

/// Who takes part in a release that starts now, with what managers below said.
pub fn membership(
    state: &State,
    seen: &dyn Seen,
    strategy: &Strategy,
    told: &Turnouts,
    now: Now,
) -> Membership {
    let silent_after_ms = strategy.rollout.as_ref().map_or(u64::MAX, Rollout::silent_after_ms);
    let turnout =
        |child: ChildKey, _: &plan::Entry| turnout::of_child(state, seen, told, silent_after_ms, child, now);
    let plan = plan::plan_of(strategy, &state.shared, turnout);
    let excluded = excluded(&plan);
    let waves = waves(&plan);
    let managers = managers(state, &plan);
    let lacks = lacks(strategy, &plan, &managers);
    let has_turns = !plan.waves.is_empty() || !plan.sequence.is_empty();
    let silent = plan.turnouts.iter().map(|turnout| turnout.silent).fold(0, u32::saturating_add);
    Membership {
        members: plan.members.into(),
        excluded,
        waves,
        managers,
        lacks,
        left_out: if has_turns { silent } else { 0 },
    }
}

/// Those of the members that are managers themselves, with their agents and the waves of these.
fn managers(state: &State, plan: &Plan) -> BTreeMap<ChildKey, Planned> {
    let planned = |(at, child): (usize, &ChildKey)| {
        state.children.get(*child).filter(|record| record.kind() == ChildKind::Rm)?;
        let agents = plan.turnouts.get(at).map_or(0, |turnout| turnout.all());
        let mut last = 0;
        let quotas = (0..plan.waves.len()).filter_map(|wave| {
            let quota = plan.quota(at, wave);
            (quota > std::mem::replace(&mut last, quota)).then_some((wave as u32, quota))
        });
        Some((*child, Planned { agents, quotas: quotas.collect() }))
    };
    plan.members.iter().enumerate().filter_map(planned).collect()
}

/// The functions that each member does not run; nothing where all run all. A manager below sees to it for its own children.
fn lacks(strategy: &Strategy, plan: &Plan, managers: &BTreeMap<ChildKey, Planned>) -> Vec<FunctionSet> {
    if plan.parts.is_empty() {
        return Vec::new();
    }
    let lacks = |(at, child): (usize, &ChildKey)| {
        let runs_all = managers.contains_key(child);
        if runs_all { FunctionSet::EMPTY } else { FunctionSet(plan.part(at).lacks(strategy)) }
    };
    plan.members.iter().enumerate().map(lacks).collect()
}

/// What one child does not run.
pub(in crate::release) fn lacks_of(state: &Snapshot, release: &Release, child: ChildKey) -> FunctionSet {
    let is_manager = state.children.get(child).is_some_and(|record| record.kind() == ChildKind::Rm);
    match plan::fit(&release.strategy, state, None, child) {
        Some(Ok(part)) if !is_manager => FunctionSet(part.lacks(&release.strategy)),
        _ => FunctionSet::EMPTY,
    }
}

/// The wave of each member; a location is a wave of one.
fn waves(plan: &Plan) -> Vec<u32> {
    if !plan.waves.is_empty() {
        return (0..plan.members.len()).map(|at| plan.wave(at) as u32).collect();
    }
    let mut waves = vec![0; plan.sequence.len()];
    for (wave, at) in (0..).zip(&plan.sequence) {
        if let Some(place) = waves.get_mut(*at as usize) {
            // Who is silent has a turn together with the others that are, last.
            *place = u32::min(wave, plan.live);
        }
    }
    waves
}
