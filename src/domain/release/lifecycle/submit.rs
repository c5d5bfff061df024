//! A developer submits a release.

use std::cell::LazyCell;

use super::{
    Adoption, Change as CourseChange, Submission, bases, participants::excluded, ports, roll_back::roll_back,
};
use crate::{
    plan::{self, Advice, UnmanagedRouter},
    release::{
        change::Change,
        command::{CanNotLead, Decision, Outlook, Refusal, Reply},
        ending::{Cause, Ending},
        offer::OfferName,
        state::{End, Release, ReleaseState, State},
    },
};
use language::{OnConflict, Strategy};
use model::{Now, ReleaseId, ReleaseKey, tenant};

pub(in crate::release) fn decide(state: &State, submitted: &Submission, dry_run: bool, now: Now) -> Decision {
    if let Some(known) = state.known.get(&submitted.id) {
        if known.digest != submitted.recognised_by() {
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
    changes.push(Change::Lifecycle(CourseChange::Submitted {
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
    let not_yet =
        |earlier: &&Release| !earlier.deferred && !matches!(earlier.state, ReleaseState::RollingBack { .. });
    // A tenant takes nobody's releases back but its own; for others it waits.
    let is_own = |earlier: &&Release| id.tenant().is_none_or(|own| earlier.id.tenant() == Some(own));
    let earlier = state.conflicts(strategy, key).filter(not_yet).filter(is_own);
    let ending = |earlier: &Release| {
        let name = tenant::named(earlier.id.tenant(), id);
        let by = if name == tenant::ANOTHERS { format!("{name} release") } else { format!("release {name}") };
        Ending::new(Cause::Superseded, format!("superseded by {by}"))
    };
    earlier.flat_map(|earlier| roll_back(state, earlier, ending(earlier), End::Aborted, now)).collect()
}

/// Refuses a release that starts now and wants no other beside it.
pub(in crate::release) fn refuse_conflicts<'a>(
    strategy: &Strategy,
    conflicts: impl Iterator<Item = &'a Release>,
) -> Result<(), Refusal> {
    if strategy.on_conflict != OnConflict::Refuse {
        return Ok(());
    }
    let others = conflicts.filter(|other| !other.deferred);
    let (with, unseen): (Vec<_>, Vec<_>) = others
        .map(|other| other.id.clone())
        .partition(|other| strategy.tenant().is_none_or(|own| other.tenant() == Some(own)));
    match (with.is_empty(), unseen.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(Refusal::AnothersConflict),
        (false, _) => Err(Refusal::Conflict(with)),
    }
}

/// Refuses a release while another one under way would register the same: what the later one begins with is gone once the other has ended.
pub(in crate::release) fn refuse_same_adoption(
    state: &State,
    id: &ReleaseId,
    adopts: Option<&Adoption>,
) -> Result<(), Refusal> {
    let Some(own) = adopts else { return Ok(()) };
    let is_other = |other: &&Release| {
        let is_same = other.adopts.as_ref().is_some_and(|adopted| adopted.id == own.id);
        is_same && other.id != *id && !other.state.is_over()
    };
    match state.releases.values().find(is_other) {
        Some(other) => Err(Refusal::SameAdoption(other.id.clone())),
        None => Ok(()),
    }
}

fn check(state: &State, submitted: &Submission, key: ReleaseKey) -> Result<(), Refusal> {
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
    refuse_same_adoption(state, id, submitted.adopts.as_deref())?;
    let strategy = &*submitted.strategy;
    let planned = LazyCell::new(|| plan::plan(strategy, &state.shared));
    if let Some(unmanaged) = plan::unmanaged(strategy, &state.shared, || &planned) {
        let UnmanagedRouter { service, router, kind, lacks } = unmanaged;
        let router = state.children.get(router).map(|child| child.id.to_string()).unwrap_or_default();
        return Err(Refusal::CanNotLead(Box::new(CanNotLead { router, kind, service, lacks })));
    }
    ports::check(state, strategy, || &planned)?;
    bases::check(state, strategy, key, || &planned)?;
    if submitted.deferred { Ok(()) } else { refuse_conflicts(strategy, state.conflicts(strategy, key)) }
}

fn outlook(state: &State, strategy: &Strategy, key: ReleaseKey, now: Now) -> Outlook {
    // While another release of a function is not over, what will serve once this one begins isn't known.
    let blind = state.conflicts(strategy, key).next().map(|_| strategy.clone().without_contents());
    // Nobody was noticed, and nobody is silent.
    let plan = plan::plan(blind.as_ref().unwrap_or(strategy), &state.shared);
    Outlook {
        advice: Advice {
            taken_over: ports::taken_over(state, strategy, &plan),
            shared_ports: ports::shared_ports(state, strategy, &plan),
            ..plan::advise(strategy, &state.shared, &plan)
        },
        participants: plan.members.len() as u32,
        excluded: excluded(&plan),
        waits_for: state.goes_before(strategy, key, now).map(|release| release.id.clone()).collect(),
    }
}
