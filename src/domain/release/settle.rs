//! The consequences of changes: limits are judged, gates open, releases end when nobody is awaited any more, the next
//! in the queue starts, a child that became free is offered what comes next, and one that is not what it was is planned
//! anew.

use super::{
    analysis,
    assignment::Step,
    automation,
    change::Change,
    command::LastSeen,
    first_failure, lifecycle, members,
    next_action::{NextAction, turn},
    parent, previous_run, replan, stages,
    stages::skip_again,
    start::start_next,
    state::{End, Release, ReleaseState, State},
};
use model::{ChildKey, ChildStatus, Now, ReleaseKey, steps};

/// What follows from `changes`, which are applied already. Empty when nothing does.
pub fn settle(state: &State, seen: &dyn LastSeen, changes: &[Change], now: Now) -> Vec<Change> {
    let mut follow = Vec::new();
    // By release: none looks through what is of others.
    let mut touching: Vec<&Change> = changes.iter().filter(|change| change.release().is_some()).collect();
    touching.sort_by_key(|change| change.release());
    for changes in touching.chunk_by(|one, other| one.release() == other.release()) {
        steps::take(changes.len());
        let key = changes.first().and_then(|change| change.release());
        let Some(release) = key.and_then(|key| state.release(key)) else { continue };
        follow.extend(lifecycle::routers_back(release, now));
        follow.extend(previous_run::note(release, changes, now));
        let noted = first_failure::noted(state, release, changes);
        let is_noted = noted.is_some() || release.ending.is_some();
        follow.extend(noted);
        let mut judged = automation::judge(state, release, changes, now);
        if judged.is_empty() {
            judged = analysis::judge(state, release, now);
        }
        if judged.is_empty() {
            // No gate is looked at before what it waits for has begun.
            judged = analysis::begin(release, changes, now);
        }
        if judged.is_empty() {
            let ends = end(state, release, is_noted, now);
            if ends.is_empty() {
                follow.extend(automation::lead(state, seen, release, now));
            }
            follow.extend(ends);
            follow.extend(parent::due(release, now));
            follow.extend(parent::undone(state, release));
        } else {
            follow.extend(judged);
        }
    }
    if changes.iter().any(may_move_queue) {
        follow.extend(start_next(state, seen, now));
    }
    follow.extend(offer_to_freed(state, changes, now));
    follow.extend(replan::follow(state, changes, now));
    follow.extend(skip_again(state, changes, now));
    follow
}

/// Whether another release may have its turn after this.
const fn may_move_queue(change: &Change) -> bool {
    match change {
        Change::Lifecycle(change) => match change {
            lifecycle::Change::Submitted { .. }
            | lifecycle::Change::Resumed { .. }
            | lifecycle::Change::Ended { .. }
            | lifecycle::Change::Replanned { .. } => true,
            lifecycle::Change::Started { .. }
            | lifecycle::Change::Paused { .. }
            | lifecycle::Change::Aborted { .. }
            | lifecycle::Change::FaultNoted { .. }
            | lifecycle::Change::ActedOn { .. }
            | lifecycle::Change::Retried { .. }
            | lifecycle::Change::RoutersBack { .. }
            | lifecycle::Change::Removed { .. } => false,
        },
        Change::Parent(change) => match change {
            parent::Change::Held { .. } => true,
            parent::Change::Recounted { .. }
            | parent::Change::StageReported { .. }
            | parent::Change::Failed { .. }
            | parent::Change::FailuresAccepted { .. }
            | parent::Change::Forwarded { .. }
            | parent::Change::Continued { .. }
            | parent::Change::UndoAwaited { .. }
            | parent::Change::UndoReported { .. } => false,
        },
        Change::Children(_)
        | Change::Rollout(_)
        | Change::Stages(_)
        | Change::Members(_)
        | Change::Analysis(_)
        | Change::Traffic(_)
        | Change::Workflows(_) => false,
    }
}

/// `is_noted`: who ended badly first, and why, is known.
fn end(state: &State, release: &Release, is_noted: bool, now: Now) -> Vec<Change> {
    if release.counts.awaited > 0 {
        return Vec::new();
    }
    let end = match release.state {
        ReleaseState::Running if release.awaits_last_verdict() => return Vec::new(),
        ReleaseState::Running if release.rolls_out_untested() => {
            return vec![Change::Stages(stages::Change::UntestedRolledOut { release: release.key, now })];
        }
        ReleaseState::Running if release.counts.failures() > 0 || release.was_aborted_below() => {
            End::DoneWithFailures
        }
        ReleaseState::Running if release.is_without_participants() => End::NoParticipants,
        ReleaseState::Running if release.counts.are_untested() => End::Untested,
        // What is registered then holds for all who take part, or it isn't registered.
        ReleaseState::Running if release.adopts.is_some() && release.counts.are_mixed() => {
            End::DoneWithFailures
        }
        ReleaseState::Running => End::Done,
        ReleaseState::RollingBack { end, .. } => end,
        ReleaseState::Planned
        | ReleaseState::Paused(_)
        | ReleaseState::AwaitingApproval { .. }
        | ReleaseState::Over { .. } => return Vec::new(),
    };
    // Whoever was noted first may have succeeded since.
    let fault = (end == End::DoneWithFailures && !is_noted)
        .then(|| first_failure::noted_at_the_end(state, release))
        .flatten();
    let unconfirmed = release.counts.agents.unconfirmed;
    fault
        .into_iter()
        .chain([Change::Lifecycle(lifecycle::Change::Ended { release: release.key, end, unconfirmed, now })])
        .collect()
}

/// Who may have become free for what comes next.
enum Freed {
    Nobody,
    One(ChildKey),
    AllOf(ReleaseKey),
}

impl Freed {
    const fn by(change: &Change) -> Self {
        match change {
            Change::Members(change) => match change {
                members::Change::Stepped { child, step, .. } if step.may_free() => Self::One(*child),
                members::Change::Stepped { .. }
                | members::Change::Joined { .. }
                | members::Change::DeadlinesSeen { .. }
                | members::Change::Numbers { .. }
                | members::Change::LateKept { .. }
                | members::Change::Deployed { .. } => Self::Nobody,
            },
            Change::Lifecycle(change) => match change {
                lifecycle::Change::Aborted { release, .. } | lifecycle::Change::Paused { release, .. } => {
                    Self::AllOf(*release)
                }
                lifecycle::Change::Submitted { .. }
                | lifecycle::Change::Started { .. }
                | lifecycle::Change::Resumed { .. }
                | lifecycle::Change::FaultNoted { .. }
                | lifecycle::Change::ActedOn { .. }
                | lifecycle::Change::Retried { .. }
                | lifecycle::Change::RoutersBack { .. }
                | lifecycle::Change::Replanned { .. }
                | lifecycle::Change::Ended { .. }
                | lifecycle::Change::Removed { .. } => Self::Nobody,
            },
            Change::Children(_)
            | Change::Rollout(_)
            | Change::Stages(_)
            | Change::Parent(_)
            | Change::Analysis(_)
            | Change::Traffic(_)
            | Change::Workflows(_) => Self::Nobody,
        }
    }
}

/// The offer deadline of a release that had to wait begins when the child is free.
fn offer_to_freed(state: &State, changes: &[Change], now: Now) -> Vec<Change> {
    let mut freed: Vec<ChildKey> = Vec::new();
    for change in changes {
        match Freed::by(change) {
            Freed::Nobody => {}
            Freed::One(child) => freed.push(child),
            Freed::AllOf(release) => {
                freed.extend(state.release(release).into_iter().flat_map(|found| found.assignments.keys()));
            }
        }
    }
    freed.sort_unstable();
    freed.dedup();
    freed.into_iter().filter_map(|child| offered(state, child, now)).collect()
}

/// Gives a child that polls a place, if there is one and it waits for one.
pub(super) fn admit(state: &State, child: ChildKey, now: Now) -> Option<Change> {
    let NextAction::Queued { release } = turn(state, child) else { return None };
    let release = state.release(release).filter(|release| release.has_place())?;
    let at = release.at(now);
    Some(Change::Members(members::Change::Stepped {
        release: release.key,
        child,
        step: Step::Admitted,
        at,
        summary: None,
    }))
}

fn offered(state: &State, child: ChildKey, now: Now) -> Option<Change> {
    let NextAction::Offer { release, .. } = turn(state, child) else { return None };
    let release = state.release(release)?;
    let assignment = release.assignments.get(&child)?;
    let at = release.at(now);
    let waits = matches!(assignment.status, ChildStatus::Todo | ChildStatus::Doing) && !assignment.fetched;
    let waited = waits && assignment.pending_undo().is_none() && assignment.since < at;
    waited.then_some(Change::Members(members::Change::Stepped {
        release: release.key,
        child,
        step: Step::Offered,
        at,
        summary: None,
    }))
}
