//! A command is decided, and all that follows from it.

use super::{
    archived_call,
    change::Change,
    command::{Command, LastSeen, NoReply, Reply},
    decide::decide,
    next_action::{NextAction, turn},
    settle,
    state::State,
};
use model::{ChildKey, Now};

/// Rounds of consequences that one command may have: a release ends, the next starts, has no members, ends, …
/// Bounded by the number of unfinished releases; reached only if a rule contradicts itself.
const MAX_ROUNDS: usize = 10_000;

/// Decides a command, applies what was decided and all that follows from it.
///
/// Answers the changes, in order, for the store, the readers and the audit trail. They are there even beside a
/// refusal: a late result is refused and kept.
pub fn advance(
    state: &mut State,
    seen: &dyn LastSeen,
    command: &Command,
    now: Now,
) -> (Vec<Change>, Result<Reply, NoReply>) {
    if let Command::Recalled { release, .. } = command
        && state.release(release.key).is_none()
        // It may have left the history since it was read.
        && state.known.get(&release.id).is_some_and(|known| known.key == release.key)
    {
        state.hold((**release).clone());
    }
    state.schedule.turn_to(now.wall_ms);
    state.decided += 1;
    if let Command::RecalledPart { part, as_of, then } = command {
        if state.release(part.key).is_some() {
            return advance(state, seen, then, now);
        }
        return archived_call::advance(state, seen, part, *as_of, then, now);
    }
    let decision = decide(state, seen, command, now);
    let mut changes = decision.changes;
    let mut from = 0;
    for change in &changes {
        state.apply(change);
    }
    for _ in 0..MAX_ROUNDS {
        let follow = settle::settle(state, seen, &changes[from..], now);
        from = changes.len();
        for change in &follow {
            state.apply(change);
        }
        changes.extend(follow);
        if from == changes.len() {
            break;
        }
    }
    state.let_go_of_closed(command, &changes);
    let answer = decision.answer.map(|reply| match reply {
        Reply::Polled { child, key, .. } => {
            if let Some(change) = settle::admit(state, key, now) {
                state.apply(&change);
                changes.push(change);
            }
            Reply::Polled { child, key, offer: waiting_offer(state, key) }
        }
        other => other,
    });
    (changes, answer)
}

/// The id of the offer that waits for a child.
pub fn waiting_offer(state: &State, child: ChildKey) -> Option<String> {
    match turn(state, child) {
        NextAction::Offer { release, name } => Some(name.id(state.release(release)?.id.as_str())),
        NextAction::Idle | NextAction::Queued { .. } | NextAction::Busy { .. } => None,
    }
}
