//! Time has passed: ghosts are forgotten, and deadlines that were missed have their consequence.

use super::{children::farewell, walk::Walk};
use crate::{
    model::{ChildKey, ChildStatus, Now, Outcome},
    release::{
        assignment::{ReleaseMs, Step},
        change::{Change, Forgetting},
        command::{Decision, Reply, Seen},
        deadline::{self, Deadline, Missed},
        settings::{GHOST_AFTER, MAX_DUE_PER_TICK},
        state::{Release, ReleaseState, State},
        turn,
    },
};

pub(super) fn decide(state: &State, seen: &dyn Seen, now: Now) -> Decision {
    let mut changes = ghosts(state, now);
    for release in state.releases.values() {
        if !matches!(release.state, ReleaseState::Paused { .. }) && release.at(now) >= release.next_deadline {
            overdue(state, seen, release, now, &mut changes);
        }
    }
    Decision::new(changes, Reply::Done)
}

fn ghosts(state: &State, now: Now) -> Vec<Change> {
    let born_before = now.served_ms.saturating_sub(GHOST_AFTER.as_millis() as u64);
    state
        .newborn
        .range(..(born_before, ChildKey(0)))
        .take(MAX_DUE_PER_TICK)
        .filter_map(|(_, key)| Some((*key, state.children.get(*key)?)))
        .flat_map(|(key, child)| farewell(state, key, child, Forgetting::Ghost, now))
        .collect()
}

/// Looks through one release. What is not due tells when to look again.
fn overdue(state: &State, seen: &dyn Seen, release: &Release, now: Now, changes: &mut Vec<Change>) {
    let at = release.at(now);
    let deadlines = state.settings.deadlines(&release.strategy);
    let mut next = ReleaseMs::MAX;
    let mut missed = 0;
    for (child, assignment) in &release.assignments {
        for deadline in deadline::of(assignment, deadlines, &release.strategy) {
            let due = postponed(state, seen, release, *child, &deadline, now);
            if due > at || missed >= MAX_DUE_PER_TICK {
                next = next.min(due);
                continue;
            }
            missed += 1;
            let Some(mut walk) = Walk::start(state, release, *child, now) else { continue };
            miss(&mut walk, deadline.missed);
            next = next.min(deadline::soonest(&walk.assignment, deadlines, &release.strategy));
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
    if deadline.at > at {
        return deadline.at;
    }
    if let Some(silence) = deadline.silence_ms
        && let Some(last) = seen.last_call(child)
    {
        let elapsed = now.served_ms.saturating_sub(last);
        if elapsed < silence {
            return at + (silence - elapsed);
        }
    }
    if deadline.missed == Missed::Offer && turn::is_behind_another(state, release.key, child) {
        return at + state.settings.deadlines(&release.strategy).offer_ms.max(1);
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
        Missed::Undo => walk.step(Step::UndoOverdue),
    }
}
