//! Time has passed: ghosts are forgotten, and deadlines that were missed have their consequence.

use super::{children::farewell, successor, walk::Walk};
use crate::{
    model::{ChildKey, ChildKind, ChildStatus, Now, Outcome},
    release::{
        assignment::{ReleaseMs, Step},
        change::{Change, Forgetting},
        command::{Decision, Reply, Seen},
        deadline::{self, Deadline, Missed},
        settings::{GHOST_AFTER, MAX_DUE_PER_TICK},
        settle::start_next,
        state::{Release, ReleaseState, State},
        turn,
    },
};

pub(super) fn decide(state: &State, seen: &dyn Seen, now: Now) -> Decision {
    let mut succession = successor::look_again(state, seen, now);
    if !succession.is_empty() {
        // Deadlines and ghosts are looked at next, with what this has changed.
        succession.push(Change::NewcomersSeen { now });
        return Decision::new(succession, Reply::Done);
    }
    let ghosts = ghosts(state, now);
    let mut changes: Vec<Change> = ghosts
        .iter()
        .filter_map(|key| Some((*key, state.children.get(*key)?)))
        .flat_map(|(key, child)| farewell(state, key, child, None, Forgetting::Ghost, now))
        .collect();
    for release in state.releases.values() {
        if !matches!(release.state, ReleaseState::Paused { .. }) && release.at(now) >= release.next_deadline {
            overdue(state, seen, release, &ghosts, now, &mut changes);
        }
    }
    changes.extend(successor::inherit(state, seen, &changes, now));
    changes.extend(start_next(state, now));
    changes.push(Change::NewcomersSeen { now });
    Decision::new(changes, Reply::Done)
}

/// Ascending.
fn ghosts(state: &State, now: Now) -> Vec<ChildKey> {
    let born_before = now.served_ms.saturating_sub(GHOST_AFTER.as_millis() as u64);
    let born = state.newborn.range(..(born_before, ChildKey(0)));
    let mut ghosts: Vec<ChildKey> = born.take(MAX_DUE_PER_TICK).map(|(_, key)| *key).collect();
    ghosts.sort_unstable();
    ghosts
}

/// Looks through one release. What is not due tells when to look again.
fn overdue(
    state: &State,
    seen: &dyn Seen,
    release: &Release,
    ghosts: &[ChildKey],
    now: Now,
    changes: &mut Vec<Change>,
) {
    let at = release.at(now);
    let deadlines = state.settings.deadlines(&release.strategy);
    // What is due of this now the consequences of this look bring about.
    let led = [release.gate_due(), release.verdict_overdue()];
    let mut next = led.into_iter().filter(|due| *due > at).min().unwrap_or(ReleaseMs::MAX);
    let mut missed = 0;
    for (child, assignment) in &release.assignments {
        if ghosts.binary_search(child).is_ok() {
            // It is taken out of the release; what that leaves to others is looked at next time.
            next = 0;
            continue;
        }
        for deadline in deadline::of(assignment, deadlines, &release.strategy, &release.gates) {
            let due = postponed(state, seen, release, *child, &deadline, now);
            if due > at || missed >= MAX_DUE_PER_TICK {
                next = next.min(due);
                continue;
            }
            missed += 1;
            let Some(mut walk) = Walk::start(state, release, *child, now) else { continue };
            miss(&mut walk, deadline.missed);
            let soonest = deadline::soonest(&walk.assignment, deadlines, &release.strategy, &release.gates);
            next = next.min(soonest);
            changes.append(&mut walk.changes);
            // One consequence at a time: what follows from it has deadlines of its own.
            break;
        }
    }
    changes.push(Change::DeadlinesSeen { release: release.key, next });
}

/// When a deadline is really due: silence is broken by any call, and an offer that waits behind a release in which
/// the child is still awaited is not offered yet.
fn postponed(
    state: &State,
    seen: &dyn Seen,
    release: &Release,
    child: ChildKey,
    deadline: &Deadline,
    now: Now,
) -> ReleaseMs {
    let at = release.at(now);
    // A child that was forgotten gives no sign of life any more.
    let Some(record) = state.children.get(child).filter(|_| deadline.at <= at) else {
        return deadline.at;
    };
    let deadlines = state.settings.deadlines(&release.strategy);
    // A manager runs a stage as long as its own children need, and calls meanwhile.
    let calls = deadline.missed == Missed::Stage && record.kind() == ChildKind::Rm;
    if let Some(silence) = deadline.silence_ms.or(calls.then_some(deadlines.setup_ms))
        && let Some(last) = seen.last_call(child)
    {
        let elapsed = now.served_ms.saturating_sub(last);
        if elapsed < silence {
            return at + (silence - elapsed);
        }
    }
    if deadline.missed == Missed::Offer && turn::is_behind_another(state, release.key, child) {
        return at + deadlines.offer_ms.max(1);
    }
    deadline.at
}

fn miss(walk: &mut Walk<'_>, missed: Missed) {
    match missed {
        Missed::Offer => {
            let outcome = Outcome::Unreachable;
            walk.step(Step::Ended { status: ChildStatus::Failed, outcome });
            walk.offer_undo();
        }
        Missed::SetUp | Missed::Stage => walk.give_up(Outcome::TimedOut),
        Missed::Calls => walk.step(Step::SignalledIdle),
        Missed::Undo if walk.state.children.get(walk.child).is_none() => walk.step(Step::UndoDropped),
        Missed::Undo => walk.step(Step::UndoOverdue),
    }
}
