//! What becomes of releases when a child is no longer what it was: it moved, or has other runtimes or labels.
//!
//! What a child has begun goes on, for what was handed out can't be recalled. Where it has not begun it is planned anew:
//! one that doesn't fit any more is taken out with the reason, which is no failure; one that fits now joins where the
//! release takes late joiners, and one that was taken out comes back there with another attempt. A release that has
//! not started asks who takes part when it does.
//!
//! Deliberately not here: a child that is cordoned keeps what it was given; draining takes it away (`decide::children`).

use std::{collections::BTreeSet, sync::Arc};

use super::{
    assignment::{Assignment, FunctionSet, Step},
    change::Change,
    decide::take_out,
    lifecycle::{is_in_place, lacks_of},
    members,
    offer::{MAX_ATTEMPT, Unit},
    state::{Release, State},
};
use crate::{
    children::{self, Arrival},
    plan::{self, Cover, Entry},
};
use model::{ChildKey, ChildStatus, Cordon, Exclusion, Now, Outcome, ReleaseKey};

impl Release {
    /// The area of its target, prepared for looking many children up.
    fn cover(&self, state: &State) -> Option<Cover> {
        let area = self.strategy.target.as_ref()?.area.as_ref()?;
        Some(state.children.areas().cover(&area.polygons()))
    }

    /// The area of its target, prepared for looking one child up. What a call costs must not grow with the number of children.
    fn cover_for(&self, state: &State, child: ChildKey) -> Option<Arc<Cover>> {
        let area = self.strategy.target.as_ref()?.area.as_ref()?;
        let bounds = state.children.areas().get(child).and_then(Entry::bounds);
        Some(self.cover.for_child(|| area.polygons(), bounds))
    }

    /// Why the child could not be planned for it now; that it is cordoned is no reason.
    pub(super) fn unfit(&self, state: &State, child: ChildKey) -> Option<Exclusion> {
        unfit(self, state, self.cover_for(state, child).as_deref(), child)
    }
}

fn unfit(release: &Release, state: &State, cover: Option<&Cover>, child: ChildKey) -> Option<Exclusion> {
    plan::fit(&release.strategy, &state.shared, cover, child)?.err().map(plan::Why::exclusion)
}

/// What a change means for who takes part.
enum News {
    None,
    /// A child is not what it was.
    Otherwise(ChildKey),
    /// A child may take part in what it could not before.
    There(ChildKey),
    /// Those who get another attempt in a release may have moved since the last one.
    TriedAgain(ReleaseKey),
    /// One of them.
    OneTriedAgain(ReleaseKey, ChildKey),
}

impl News {
    const fn of(change: &Change) -> Self {
        match change {
            Change::Children(change) => match change {
                children::Change::Moved { child, .. }
                | children::Change::Reported { child, .. }
                | children::Change::Labelled { child, .. } => Self::Otherwise(*child),
                children::Change::CalledAgain { child }
                | children::Change::Back { child }
                | children::Change::Arrived { child, arrival: Arrival::Adopted, .. }
                | children::Change::Cordoned { child, cordon: Cordon::Open } => Self::There(*child),
                // One that was registered just now may be a ghost; and who is cordoned keeps what it was given.
                children::Change::Arrived { arrival: Arrival::Registered, .. }
                | children::Change::Cordoned { cordon: Cordon::Cordoned | Cordon::Drained, .. }
                | children::Change::CalledFrom { .. }
                | children::Change::Paced { .. }
                | children::Change::SaysOtherwise { .. }
                | children::Change::Proven { .. }
                | children::Change::Replaced { .. }
                | children::Change::Forgotten { .. }
                | children::Change::Seen { .. } => Self::None,
            },
            Change::Lifecycle(change) => match change.retried() {
                Some(release) => Self::TriedAgain(release),
                None => Self::None,
            },
            Change::Members(members::Change::Stepped { release, child, step: Step::Retried, .. }) => {
                Self::OneTriedAgain(*release, *child)
            }
            // An operator of the agent has something else served.
            Change::Members(members::Change::Stepped {
                child,
                step: Step::Replaced { .. } | Step::Restored { .. },
                ..
            }) => Self::Otherwise(*child),
            Change::Rollout(_)
            | Change::Stages(_)
            | Change::Members(_)
            | Change::Parent(_)
            | Change::Analysis(_)
            | Change::Traffic(_)
            | Change::Workflows(_) => Self::None,
        }
    }
}

/// What follows from `changes`, which are applied already.
pub(super) fn follow(state: &State, changes: &[Change], now: Now) -> Vec<Change> {
    let mut follow = Vec::new();
    let (mut changed, mut came) = (BTreeSet::new(), BTreeSet::new());
    let mut again = Vec::new();
    for change in changes {
        match News::of(change) {
            News::None => {}
            News::Otherwise(child) => {
                changed.insert(child);
                came.insert(child);
            }
            News::There(child) => {
                came.insert(child);
            }
            News::OneTriedAgain(release, child) => again.push((release, child)),
            News::TriedAgain(release) => {
                follow.extend(state.release(release).into_iter().flat_map(|release| {
                    let cover = release.cover(state);
                    let all = release.assignments.iter().filter(|(_, assignment)| assignment.attempt > 1);
                    all.flat_map(move |(child, _)| expel(state, release, cover.as_ref(), *child, now))
                }));
            }
        }
    }
    for (release, child) in again {
        let to_begin = state.release(release).filter(|release| is_to_begin(release, child));
        follow.extend(to_begin.and_then(|release| {
            lacks_otherwise(state, release, child, lacks_of(state, release, child), now)
        }));
    }
    for child in changed {
        // A target of many vertices takes a while to prepare: only where that decides something.
        for release in open(state, child).filter(|release| is_to_begin(release, child)) {
            follow.extend(expel(state, release, release.cover_for(state, child).as_deref(), child, now));
        }
    }
    for child in came {
        follow.extend(take_in(state, child, now));
    }
    follow
}

fn open(state: &State, child: ChildKey) -> impl Iterator<Item = &Release> {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    open.iter().filter_map(|release| state.release(*release))
}

/// Whether a child has a part in a release that is under way, and has not begun it.
fn is_to_begin(release: &Release, child: ChildKey) -> bool {
    let waits = |assignment: &Assignment| assignment.status == ChildStatus::Todo;
    release.is_under_way() && release.assignments.get(&child).is_some_and(waits)
}

/// Takes a child out of a release that it has not begun and does not fit any more.
fn expel(state: &State, release: &Release, cover: Option<&Cover>, child: ChildKey, now: Now) -> Vec<Change> {
    if !is_to_begin(release, child) {
        return Vec::new();
    }
    match plan::fit(&release.strategy, &state.shared, cover, child) {
        None => Vec::new(),
        Some(Err(why)) => take_out(state, release, child, why.exclusion(), now),
        // What it can run may be more now, or less.
        Some(Ok(_)) => {
            let functions = lacks_of(state, release, child);
            let part = release.assignments.get(&child);
            if part.is_some_and(|part| is_of_another_group(release, part, functions)) {
                let was_router = release.turns.is_of_routers(part.map_or(0, |part| part.wave));
                let why = if was_router { Exclusion::Router } else { Exclusion::Runtime };
                return take_out(state, release, child, why, now);
            }
            lacks_otherwise(state, release, child, functions, now).into_iter().collect()
        }
    }
}

/// Notes what it does not run and how it is led, if that is not what was noted. Where its first offer is a roll-out it stays
/// with that: it may have been shown.
fn lacks_otherwise(
    state: &State,
    release: &Release,
    child: ChildKey,
    functions: FunctionSet,
    now: Now,
) -> Option<Change> {
    let part = release.assignments.get(&child)?;
    if is_of_another_group(release, part, functions) {
        return None;
    }
    let in_place = !part.is_whole() && is_in_place(&state.shared, &release.strategy, child, functions);
    let is_otherwise = part.lacks_in(&release.strategy) != functions || part.is_in_place() != in_place;
    let changes = is_otherwise && !matches!(part.piece(), Unit::Rollout(_));
    let (step, at) = (Step::Lacks { functions, in_place }, release.at(now));
    changes.then_some(Change::Members(members::Change::Stepped {
        release: release.key,
        child,
        step,
        at,
        summary: None,
    }))
}

/// Whether a child, by what it doesn't run, is of the other group of a hybrid than its part: it has a turn among those.
fn is_of_another_group(release: &Release, part: &Assignment, lacks: FunctionSet) -> bool {
    let routers = !release.gates.levels.leads_services(lacks);
    release.gates.levels.is_hybrid() && routers != release.turns.is_of_routers(part.wave)
}

/// Lets a child take part where the strategy wants late joiners, unless it is a ghost still.
fn take_in(state: &State, child: ChildKey, now: Now) -> Vec<Change> {
    if state.children.get(child).is_none_or(|record| !record.called_again) {
        return Vec::new();
    }
    let wants = |release: &&Release| release.assignments.get(&child).is_none_or(may_come_back);
    let is_able = |release: &&Release| {
        let part = release.assignments.get(&child);
        if part.is_some_and(|part| is_of_another_group(release, part, lacks_of(state, release, child))) {
            return false;
        }
        let cover = release.cover_for(state, child);
        matches!(plan::why_not(&release.strategy, &state.shared, cover.as_deref(), child), Some(Ok(_)))
    };
    let join = |release: &Release| {
        let key = release.key;
        if release.assignments.contains_key(&child) {
            let at = release.at(now);
            let again = Change::Members(members::Change::Stepped {
                release: key,
                child,
                step: Step::Retried,
                at,
                summary: None,
            });
            let otherwise = lacks_otherwise(state, release, child, lacks_of(state, release, child), now);
            return std::iter::once(again).chain(otherwise).collect::<Vec<_>>();
        }
        let lacks = lacks_of(state, release, child);
        vec![Change::Members(members::Change::Joined { release: key, child, instead_of: None, now, lacks })]
    };
    state.joinable().filter(wants).filter(is_able).flat_map(join).collect()
}

/// Whether it was taken out for what it was, and not for what it did or somebody wanted.
fn may_come_back(assignment: &Assignment) -> bool {
    assignment.attempt < MAX_ATTEMPT && assignment.outcome.is_some_and(was_unfit)
}

/// Whether an outcome says that the child did not fit, and may fit again.
pub(super) const fn was_unfit(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Excluded(
            Exclusion::Outside
                | Exclusion::NoArea
                | Exclusion::Label
                | Exclusion::Runtime
                | Exclusion::Owes
                | Exclusion::OtherBase
                | Exclusion::Drained
        )
    )
}
