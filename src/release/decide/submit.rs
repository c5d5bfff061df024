//! A developer submits a release.

use std::collections::BTreeMap;

use super::operate::roll_back;
use crate::{
    model::{ChildKey, ChildKind, Exclusion, Now, ReleaseId, ReleaseKey},
    plan::{self, Plan},
    release::{
        change::{Change, Membership, Submitted},
        command::{Decision, Outlook, Refusal, Reply},
        ending::{Cause, Ending},
        manager::Planned,
        offer::OfferName,
        state::{End, Release, ReleaseState, State},
    },
    strategy::{OnConflict, Strategy},
};

pub(super) fn decide(state: &State, submitted: &Submitted, dry_run: bool, now: Now) -> Decision {
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
    changes.push(Change::ReleaseSubmitted { release: key, submitted: Box::new(submitted.clone()), now });
    Decision::new(changes, reply)
}

/// Takes back what a release that starts now supersedes, if it says so.
pub(super) fn supersede(
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
pub(super) fn refuse_conflicts(state: &State, strategy: &Strategy, key: ReleaseKey) -> Result<(), Refusal> {
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
    if state.releases.values().filter(|release| !release.state.is_over()).count() >= limit {
        return Err(Refusal::Limit { what: "unfinished releases", limit });
    }
    if submitted.deferred { Ok(()) } else { refuse_conflicts(state, &submitted.strategy, key) }
}

fn outlook(state: &State, strategy: &Strategy, key: ReleaseKey, now: Now) -> Outlook {
    let membership = membership(state, strategy);
    Outlook {
        participants: membership.members.len() as u32,
        excluded: membership.excluded,
        waits_for: state.goes_before(strategy, key, now).map(|release| release.id.clone()).collect(),
    }
}

/// Who takes part in a release that starts now.
pub fn membership(state: &State, strategy: &Strategy) -> Membership {
    let plan = plan::plan(strategy, state);
    let mut excluded: BTreeMap<Exclusion, u32> = BTreeMap::new();
    for (why, tally) in &plan.excluded {
        *excluded.entry(why.exclusion()).or_default() += tally.children;
    }
    let waves = waves(&plan);
    let managers = managers(state, &plan);
    Membership { members: plan.members.into(), excluded: excluded.into_iter().collect(), waves, managers }
}

/// Those of the members that are managers themselves, with their agents and the waves of these.
fn managers(state: &State, plan: &Plan) -> BTreeMap<ChildKey, Planned> {
    let planned = |(at, child): (usize, &ChildKey)| {
        let record = state.children.get(*child).filter(|record| record.kind() == ChildKind::Rm)?;
        let agents = record.counted_agents();
        let mut last = 0;
        let quotas = (0..plan.waves.len()).filter_map(|wave| {
            let quota = plan.quota(at, agents, wave);
            (quota > std::mem::replace(&mut last, quota)).then_some((wave as u32, quota))
        });
        Some((*child, Planned { agents, quotas: quotas.collect() }))
    };
    plan.members.iter().enumerate().filter_map(planned).collect()
}

/// The wave of each member; a location is a wave of one.
fn waves(plan: &Plan) -> Vec<u32> {
    if !plan.waves.is_empty() {
        return (0..plan.members.len()).map(|at| plan.wave(at) as u32).collect();
    }
    let mut waves = vec![0; plan.sequence.len()];
    for (wave, at) in (0..).zip(&plan.sequence) {
        if let Some(place) = waves.get_mut(*at as usize) {
            *place = wave;
        }
    }
    waves
}
