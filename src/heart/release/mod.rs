//! The heart: what a release is, and how it moves. Pure; the time and everything random are arguments.
//!
//! ```text
//! command ─▶ decide(&state, seen, command, now) ─▶ changes + answer
//!                    apply(&mut state, change)       infallible
//!                    settle(&state, seen, changes, now) ─▶ changes that follow, until none does
//! ```
//!
//! What shapes every rule here is how deployed agents behave. They act before they report, follow their own
//! `onSuccess` and `onFailure`, walk on to the next listed stage after a failure, are silent while a stage runs,
//! exit on any error when they fetch an offer, never repeat a lost result, and come back from a restart under a
//! new id. So what was handed out can't be recalled, only undone; an offer once shown is never refused; and silence
//! is no news.
//!
//! Deliberately not here: HTTP, storage, rendering of texts, last-seen times (see [`command::Seen`]).

pub mod analysis;
pub mod apply;
pub mod assignment;
pub mod assignments;
pub mod by_itself;
pub mod change;
pub mod classes;
mod clock;
pub mod command;
pub mod deadline;
pub mod decide;
pub mod ending;
mod fleet;
pub mod gate;
mod handed;
pub mod lead;
pub mod lifecycle;
pub mod manager;
pub mod measured;
pub mod members;
mod memory;
pub mod offer;
pub mod parent;
pub mod part;
pub mod pause;
pub mod precedent;
pub mod prospect;
pub mod queue;
pub mod releases;
mod replan;
pub mod rollout;
mod schedule;
pub mod settings;
pub mod settle;
pub mod stages;
pub mod state;
pub mod strata;
pub mod summary;
mod text;
pub mod turn;
pub mod turnout;
pub mod waits;

use change::Change;
use command::{Command, NoReply, Reply, Seen};
use state::State;

use model::Now;

pub use decide::decide;

/// Rounds of consequences that one command may have: a release ends, the next starts, has no members, ends, …
/// Bounded by the number of unfinished releases; reached only if a rule contradicts itself.
const MAX_ROUNDS: usize = 10_000;

/// Decides a command, applies what was decided and all that follows from it.
///
/// Answers the changes, in order, for the store, the readers and the audit trail. They are there even beside a
/// refusal: a late result is refused and kept.
pub fn advance(
    state: &mut State,
    seen: &dyn Seen,
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
        return part::advance(state, seen, part, *as_of, then, now);
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
pub fn waiting_offer(state: &State, child: model::ChildKey) -> Option<String> {
    match turn::turn(state, child) {
        turn::Turn::Offer { release, name } => Some(name.id(state.release(release)?.id.as_str())),
        turn::Turn::Idle | turn::Turn::Queued { .. } | turn::Turn::Busy { .. } => None,
    }
}
