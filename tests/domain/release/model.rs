//! The small model: what may never happen between two states, whatever was commanded.

use std::collections::HashMap;

use domain::{
    plan,
    release::{
        assignment::{Assignment, StepIndex},
        command::{Command, Form, LastSeen as _, Reply},
        deadline::{self, MissedDeadline},
        decide, members,
        next_action::{NextAction, turn},
        offer::Unit,
        settings::Member,
        state::{Counts, End, Release, ReleaseState, State},
        waiting_offer,
    },
};
use language::Order;
use model::{ChildKey, ChildStatus, Outcome, ReleaseKey, StageStatus};

use super::world::World;

/// What was seen of each child in each release so far.
#[derive(Debug, Default)]
pub struct Model {
    seen: HashMap<(ReleaseKey, ChildKey), Glimpse>,
}

#[derive(Debug, Clone)]
struct Glimpse {
    attempt: u16,
    status: ChildStatus,
    stages: HashMap<(u16, StepIndex), StageStatus>,
    marks: usize,
}

/// `No` is where a child goes that is taken out: as final as `Done` and `Failed`.
fn rank(status: ChildStatus) -> u8 {
    match status {
        ChildStatus::Todo => 1,
        ChildStatus::Doing => 2,
        ChildStatus::No | ChildStatus::Done | ChildStatus::Failed => 3,
    }
}

/// Whoever decides finds by function what a release waits for, whoever reads looks through all.
fn check_readers_see_the_same(world: &World, release: &Release) {
    let (state, snapshot) = (&world.state, world.state.snapshot());
    let decided = state.goes_before(&release.strategy, release.key, world.now).map(|other| other.key);
    let read = snapshot.goes_before(&release.strategy, release.key, world.now).map(|other| other.key);
    assert!(decided.eq(read), "{} waits for others than readers see", release.id);
    assert_eq!(snapshot.release_by_id(release.id.as_str()), Some(release));
}

impl Model {
    /// Looks at the state after a command; panics at the first thing that must not be.
    pub fn check(&mut self, world: &World) {
        let state = &world.state;
        for (key, release) in &state.releases {
            assert!(release.is_open(), "{} is over and owes nothing, yet it is in memory", release.id);
            check_counts(release);
            check_deadline(world, release);
            check_gates(release);
            check_membership(state, release);
            check_readers_see_the_same(world, release);
            for (child, assignment) in &release.assignments {
                self.check_course(*key, *child, assignment);
                check_undo(state, release, *child, assignment);
                if let Some(record) = state.children.get(*child) {
                    assert!(
                        record.open.contains(key),
                        "{child:?} does not know that it is in {}",
                        release.id
                    );
                }
            }
        }
        for (key, child) in state.children.iter() {
            assert!(child.open.is_sorted(), "{key:?} is not in the order of submission");
            for release in child.open.iter() {
                assert!(state.assignment(*release, key).is_some(), "{key:?} has no part in {release:?}");
            }
            check_turn(world, key);
        }
    }

    fn check_course(&mut self, release: ReleaseKey, child: ChildKey, assignment: &Assignment) {
        let fresh = Glimpse {
            attempt: assignment.attempt,
            status: assignment.status,
            stages: HashMap::new(),
            marks: assignment.marks().len(),
        };
        let before = self.seen.entry((release, child)).or_insert_with(|| fresh.clone());
        assert!(assignment.attempt >= before.attempt, "{child:?}: the attempt went back");
        assert!(assignment.marks().len() >= before.marks, "{child:?}: a stored result vanished");
        if assignment.attempt == before.attempt {
            let (was, is) = (before.status, assignment.status);
            assert!(rank(is) >= rank(was), "{child:?} went back from {was} to {is}");
            assert!(rank(was) < 3 || is == was, "{child:?} was {was} and over, now it is {is}");
            let stage = before.stages.entry((assignment.attempt, assignment.slot));
            let stage = stage.or_insert(StageStatus::Pending);
            assert!(assignment.stage_status >= *stage, "{child:?}: a stage went back");
            assert!(
                !stage.is_over() || *stage == assignment.stage_status,
                "{child:?}: an ended stage ended anew"
            );
            *stage = assignment.stage_status;
        }
        before.attempt = fresh.attempt;
        before.status = fresh.status;
        before.marks = fresh.marks;
    }
}

fn check_counts(release: &Release) {
    let mut recounted = release.clone();
    recounted.counts = Counts::default();
    recounted.recount();
    assert_eq!(release.counts, recounted.counts, "{}", release.id);
}

/// Every wait has a deadline, and the release looks no later than at the first that may be due.
fn check_deadline(world: &World, release: &Release) {
    let state = &world.state;
    let deadlines = state.settings.deadlines(&release.strategy, &state.children);
    for (child, assignment) in &release.assignments {
        let mut waits = false;
        for deadline in deadline::of(
            Member { child: *child, part: assignment },
            deadlines,
            &release.strategy,
            &release.gates,
        ) {
            waits = true;
            // A call moves a deadline of silence on, and what waits behind another release is not offered yet.
            let spoke = deadline.silence_ms.is_some() && world.calls.last_call(*child).is_some();
            // It may have been so until now: then the whole time to fetch it begins anew.
            let latest = release.at(world.now)
                + deadlines.of_member(Member { child: *child, part: assignment }).offer_ms;
            let behind = deadline.missed == MissedDeadline::Offer && release.next_deadline <= latest;
            // What two releases ask of one child in the same instant is looked at one after the other.
            let by = deadline.at.max(release.at(world.now));
            let overlooked = release.next_deadline > by && !spoke && !behind;
            assert!(!overlooked, "{}: {deadline:?} of {child:?} is overlooked: {assignment:?}", release.id);
        }
        let held = !assignment.fetched && release.gates.holds(assignment);
        assert!(waits || held || !assignment.is_awaited(), "{}: {child:?} may wait for ever", release.id);
    }
    if !release.state.is_over() && release.counts.awaited == 0 {
        let waits = matches!(release.state, ReleaseState::Planned | ReleaseState::Paused { .. });
        assert!(waits, "{} waits for nobody and does not end", release.id);
    }
}

/// No barrier opens early, and nobody begins before their wave. For straight strategies whose stages no operator cuts.
fn check_gates(release: &Release) {
    let Some(rollout) = &release.strategy.rollout else { return };
    for (child, assignment) in &release.assignments {
        let is_open = assignment.wave < release.gates.stand.waves;
        assert!(is_open || !assignment.has_begun(), "{}: {child:?} began before its wave", release.id);
    }
    if rollout.order != Order::GlobalIncremental {
        return;
    }
    let place = |assignment: &Assignment| match assignment.piece() {
        Unit::Stage(stage) => usize::from(stage),
        Unit::Whole | Unit::Rollout(_) => release.strategy.stages.len(),
    };
    let parts = || release.assignments.values().filter(|a| a.status != ChildStatus::No);
    // How far anybody has come, and was told to go.
    let begun = parts()
        .filter(|a| a.attempt == 1 && a.fetched)
        .map(|assignment| place(assignment) + usize::from(assignment.stage_status == StageStatus::ShouldEnd));
    let furthest = begun.max().unwrap_or_default().min(release.strategy.stages.len());
    // Nobody waits for who came late.
    for assignment in parts().filter(|a| a.attempt == 1 && !a.status.is_over() && a.rare().joined.is_none()) {
        let is_ready = assignment.fetched && assignment.stage_status >= StageStatus::SuccessWaiting;
        let come = place(assignment) + usize::from(is_ready);
        assert!(
            come >= furthest,
            "{}: the barrier before {furthest} opened early: {assignment:?}",
            release.id
        );
    }
}

/// Nobody is to begin what they do not fit any more.
fn check_membership(state: &State, release: &Release) {
    let to_begin = release.assignments.iter().filter(|(_, a)| a.status == ChildStatus::Todo);
    for (child, _) in to_begin.filter(|_| release.is_under_way()) {
        let unfit = plan::fit(&release.strategy, &**state, None, *child).and_then(Result::err);
        assert_eq!(unfit, None, "{}: {child:?} is to begin", release.id);
    }
}

/// A roll-back is offered to every child that may run the new version, until it is confirmed or superseded.
fn check_undo(state: &State, release: &Release, child: ChildKey, assignment: &Assignment) {
    let taken_back = matches!(
        release.state,
        ReleaseState::RollingBack { .. } | ReleaseState::Over { end: End::Aborted | End::RolledBack, .. }
    );
    // With the manager in charge nobody keeps the new version but by a roll-out.
    let led = release.strategy.rollout.is_some() && assignment.status == ChildStatus::Failed;
    let gone = matches!(assignment.outcome, Some(Outcome::Lost | Outcome::TimedOut));
    let owed =
        assignment.status.is_over() && (taken_back || gone || led) && !assignment.may_run_new().is_empty();
    let excused = assignment.rare().successor.is_some() || state.children.get(child).is_none();
    let changed_later = assignment.may_run_new().iter().any(|function| {
        let name = &release.strategy.functions[function].name;
        let deployed = state.deployment(child, name).is_some_and(|found| release.is_before(found.release));
        deployed
            || state.releases.values().filter(|other| release.is_before(other.key)).any(|later| {
                later.strategy.functions.iter().any(|f| f.name == *name)
                    && later.assignments.get(&child).is_some_and(|a| a.fetched)
            })
    });
    if owed && !excused && !changed_later {
        assert!(assignment.pending_undo().is_some(), "{}: {child:?} is not told to go back", release.id);
    }
}

/// A child has at most one thing in hand, and what a poll offers can be fetched.
fn check_turn(world: &World, child: ChildKey) {
    let state = &world.state;
    let Some(record) = state.children.get(child) else { return };
    let parts = || record.open.iter().filter_map(|release| state.assignment(*release, child));
    let works = parts().filter(|a| a.status == ChildStatus::Doing && a.fetched).count();
    let undos = parts().filter(|a| a.pending_undo().is_some_and(|undo| undo.fetched)).count();
    assert!(works + undos <= 1, "{child:?} has {works} offers and {undos} undos in hand");
    let busy = matches!(turn(state, child), NextAction::Busy { .. });
    assert_eq!(busy, works + undos == 1, "{child:?} is not where its turn says");
    let NextAction::Offer { release, .. } = turn(state, child) else { return };
    assert!(state.release(release).is_some());
    let offer = waiting_offer(state, child).unwrap();
    let fetch = Command::Members(members::Command::Fetch {
        child: record.id.as_str().to_owned(),
        offer: offer.clone(),
    });
    match decide(state, &world.calls, &fetch, world.now).answer {
        Ok(Reply::Offer(found)) => {
            assert_ne!(found.form, Form::Withdrawn, "{offer} is offered and withdrawn");
        }
        other => panic!("{offer} is offered to {} and refused: {other:?}", record.id),
    }
}
