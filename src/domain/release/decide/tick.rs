//! Time has passed: ghosts are forgotten, and deadlines that were missed have their consequence.

use std::{collections::BTreeSet, ops::Bound};

use super::{
    children::farewell,
    draft::Walk,
    successor::{self, Looked},
};
use crate::{
    children::{self, Child, Forgetting, GHOST_AFTER, REPLACED_FOR, recheck::Recheck},
    release::{
        assignment::Step,
        change::Change,
        clock::ReleaseMs,
        command::{Decision, LastSeen, Reply},
        deadline::{self, Deadline, MissedDeadline},
        members, next_action,
        settings::{MAX_DUE_PER_TICK, MAX_SWEEP_IN_ALL, MAX_SWEEP_PER_TICK, Member},
        start::start_next,
        state::{Release, State},
    },
};
use model::{ChildKey, ChildStatus, Cordon, Now, Outcome, ReleaseKey, steps};

pub(super) fn decide(state: &State, seen: &dyn LastSeen, now: Now) -> Decision {
    let Looked { done: looked, mut again, changes: mut succession } = successor::look_again(state, seen, now);
    if !succession.is_empty() {
        // Deadlines and ghosts are looked at next, with what this has changed.
        succession.push(Change::Children(children::Change::Seen {
            looked,
            again,
            kept: Vec::new(),
            gone: Vec::new(),
        }));
        return Decision::new(succession, Reply::Done);
    }
    let Expired { forgotten, kept, gone } = expired(state, seen, now);
    let changes: Vec<Change> = forgotten
        .iter()
        .filter_map(|(key, why)| Some((*key, state.children.get(*key)?, *why)))
        .flat_map(|(key, child, why)| farewell(state, key, child, None, why, now))
        .collect();
    let touched: BTreeSet<ChildKey> = forgotten.iter().map(|(key, _)| *key).collect();
    let decided = changes.iter().filter_map(Change::release).collect();
    let mut look = TickRound { state, seen, now, touched, decided, missed: 0, changes };
    for release in due(state, now) {
        let from = look.changes.len();
        look.overdue(release);
        look.decided.extend(look.changes.iter().skip(from).filter_map(Change::release));
    }
    let mut changes = look.changes;
    let debtors = successor::new_debtors(&changes);
    again.extend(debtors.iter().filter_map(|key| {
        let absence = state.settings.absence.of_child(state.children.get(*key)?);
        Some(Recheck::first(*key, now.served_ms, absence))
    }));
    changes.extend(successor::inherit(state, seen, &debtors, now));
    changes.extend(start_next(state, seen, now));
    changes.push(Change::Children(children::Change::Seen { looked, again, kept, gone }));
    Decision::new(changes, Reply::Done)
}

/// Children whose time to be looked at has come.
#[derive(Default)]
struct Expired {
    forgotten: Vec<(ChildKey, Forgetting)>,
    /// Who stays, and when they are looked at next.
    kept: Vec<(u64, ChildKey)>,
    /// What was due.
    gone: Vec<(u64, ChildKey)>,
}

fn expired(state: &State, seen: &dyn LastSeen, now: Now) -> Expired {
    let mut expired = Expired::default();
    let due = state.books.expiring(now.served_ms);
    for (at, key) in due.take(MAX_DUE_PER_TICK) {
        steps::take(1);
        expired.gone.push((at, key));
        let Some(child) = state.children.get(key) else { continue };
        let ghost_after = GHOST_AFTER.as_millis() as u64;
        if let Some(replaced) = child.replaced.as_deref() {
            let until = replaced.at + REPLACED_FOR.as_millis() as u64;
            if until > now.served_ms {
                expired.kept.push((until, key));
            } else if child.open.is_empty() {
                expired.forgotten.push((key, Forgetting::Replaced));
            } else {
                expired.kept.push((now.served_ms + REPLACED_FOR.as_millis() as u64, key));
            }
        } else if !child.called_again {
            expired.forgotten.push((key, Forgetting::Ghost));
        } else if child.unproven && !is_of_operators(child) {
            let gone_at = seen.last_call(key).unwrap_or(at) + ghost_after;
            if gone_at <= now.served_ms {
                expired.forgotten.push((key, Forgetting::Ghost));
            } else {
                expired.kept.push((gone_at, key));
            }
        }
    }
    expired
}

/// Whether an operator has said something of the child that would be forgotten with it. It is looked at again when they say
/// something else.
fn is_of_operators(child: &Child) -> bool {
    child.labels.is_some() || child.cordon != Cordon::Open
}

/// Releases that are due, in order of submission: those that wait longest, and only so many that the look at all of them
/// stays short. The others are still due at the next tick.
fn due(state: &State, now: Now) -> Vec<&Release> {
    let mut left = MAX_SWEEP_IN_ALL;
    let due = state.schedule.due(now.served_ms).filter_map(|key| state.release(key));
    let due = due.take_while(|release| {
        let is_room = left > 0;
        left = left.saturating_sub(release.assignments.len().clamp(1, MAX_SWEEP_PER_TICK));
        is_room
    });
    let mut due: Vec<&Release> = due.collect();
    due.sort_unstable_by_key(|release| release.key);
    due
}

/// A look at what is due.
struct TickRound<'a> {
    state: &'a State,
    seen: &'a dyn LastSeen,
    now: Now,
    /// Children of whom this tick has decided something.
    touched: BTreeSet<ChildKey>,
    /// Releases of which it has.
    decided: BTreeSet<ReleaseKey>,
    /// Deadlines that it has acted on.
    missed: usize,
    changes: Vec<Change>,
}

impl TickRound<'_> {
    /// Looks through one release. What is not due tells when to look again.
    fn overdue(&mut self, release: &Release) {
        let Self { state, seen, now, .. } = *self;
        let at = release.at(now);
        let deadlines = state.settings.deadlines(&release.strategy, &state.children);
        // What is due of this now the consequences of this look bring about.
        let led = [release.gate_due(), release.verdict_overdue()];
        let mut next = led.into_iter().filter(|due| *due > at).min().unwrap_or(ReleaseMs::MAX);
        let from = release.sweep.map_or(Bound::Unbounded, |sweep| Bound::Excluded(sweep.after));
        next = release.sweep.map_or(next, |sweep| next.min(sweep.next));
        // What was decided just now of its children has deadlines of its own.
        if self.decided.contains(&release.key) {
            next = next.min(at);
        }
        let mut rest = release.assignments.range((from, Bound::Unbounded));
        let mut last = None;
        let mut missing = BTreeSet::new();
        for (child, assignment) in rest.by_ref().take(MAX_SWEEP_PER_TICK) {
            steps::take(1);
            last = Some(*child);
            if self.touched.contains(child) {
                // It is taken out, or taken over; what that leaves is looked at next time.
                next = next.min(at);
                continue;
            }
            let member = Member { child: *child, part: assignment };
            for deadline in deadline::of(member, deadlines, &release.strategy, &release.gates) {
                let due = postponed(state, seen, release, member, &deadline, now);
                if due > at || self.missed >= MAX_DUE_PER_TICK {
                    next = next.min(due);
                    continue;
                }
                self.missed += 1;
                let instead = matches!(deadline.missed, MissedDeadline::SetUp | MissedDeadline::Stage)
                    .then(|| successor::instead_of(state, seen, *child, now));
                if let Some(newcomer) = instead.flatten() {
                    // Of whom this tick has decided something already, what follows from that comes first.
                    if self.touched.insert(newcomer) {
                        self.touched.insert(*child);
                        self.changes.extend(successor::take_over(state, *child, newcomer, now));
                    }
                    next = next.min(at);
                    break;
                }
                let Some(mut walk) = Walk::start(state, release, *child, now) else { continue };
                miss(&mut walk, deadline.missed);
                missing.insert(*child);
                let member = Member { child: *child, part: &walk.assignment };
                let soonest = deadline::soonest(member, deadlines, &release.strategy, &release.gates);
                next = next.min(soonest);
                self.changes.append(&mut walk.changes);
                // One consequence at a time: what follows from it has deadlines of its own.
                break;
            }
        }
        self.touched.append(&mut missing);
        let after = last.filter(|_| rest.next().is_some());
        self.changes.push(Change::Members(members::Change::DeadlinesSeen {
            release: release.key,
            next,
            after,
        }));
    }
}

/// When a deadline is really due: silence is broken by any call, and an offer that waits behind a release in which
/// the child is still awaited, or that rests, is not offered yet.
///
/// Counter-example: an undo fails and rests, and its child never calls again. If the rest, which only a call ends, held up the
/// deadline of what the child is to do next, the release would never end.
fn postponed(
    state: &State,
    seen: &dyn LastSeen,
    release: &Release,
    member: Member<'_>,
    deadline: &Deadline,
    now: Now,
) -> ReleaseMs {
    let at = release.at(now);
    let deadlines = state.settings.deadlines(&release.strategy, &state.children);
    if deadline.at > at || deadlines.record(member.child).is_none() {
        return deadline.at;
    }
    let deadlines = deadlines.of_member(member);
    let while_it_calls = deadlines.stage_silence_ms.filter(|_| deadline.missed == MissedDeadline::Stage);
    if let Some(silence) = deadline.silence_ms.or(while_it_calls)
        && let Some(last) = seen.last_call(member.child)
    {
        let elapsed = now.served_ms.saturating_sub(last);
        if elapsed < silence {
            return at + (silence - elapsed);
        }
    }
    if deadline.missed == MissedDeadline::Offer
        && let Some(until) = member.part.rests_until()
    {
        // A poll after that ends its rest, and it has as long for that as for any offer.
        return deadline.at.max(until.saturating_add(deadlines.offer_ms));
    }
    if deadline.missed == MissedDeadline::Offer
        && next_action::is_behind_another(state, release.key, member.child)
    {
        return at + deadlines.offer_ms.max(1);
    }
    deadline.at
}

fn miss(walk: &mut Walk<'_>, missed: MissedDeadline) {
    match missed {
        MissedDeadline::Offer => {
            let outcome = Outcome::Unreachable;
            walk.step(Step::Ended { status: ChildStatus::Failed, outcome });
            walk.offer_undo();
        }
        MissedDeadline::SetUp | MissedDeadline::Stage => walk.give_up(Outcome::TimedOut),
        MissedDeadline::Calls => walk.step(Step::SignalledIdle),
        MissedDeadline::Undo if walk.state.children.get(walk.child).is_none() => walk.step(Step::UndoDropped),
        MissedDeadline::Undo => walk.step(Step::UndoOverdue),
    }
}
