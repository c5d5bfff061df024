//! Decides about one child's part in a release: its own calls, and what operators want of it.

use super::{Command, end_stage, fetch, operate, report};
use crate::{
    children,
    release::{
        change::Change,
        command::{Decision, Reply},
        decide::signs_of_life,
        state::State,
    },
};
use model::Now;

/// Decides what is asked about one child's part.
pub(in crate::release) fn decide(state: &State, command: &Command, now: Now) -> Decision {
    match command {
        Command::Fetch { child, offer } => called(state, child, fetch::decide(state, child, offer, now)),
        Command::Result { child, offer, reports } => {
            called(state, child, report::decide(state, child, offer, reports, now))
        }
        Command::EndStage { child, offer, stage, failures } => {
            called(state, child, end_stage::decide(state, child, (offer, stage), *failures, now))
        }
        Command::Skip { release, child } => operate::skip(state, release, child, now).into(),
        Command::Retry { release, child } => operate::retry(state, release, child, now).into(),
    }
}

/// A child that calls is no ghost and was not replaced, whatever it asks and however that is answered. That is noted with
/// the call itself, also where the release has left memory: it is no reason to bring all of that back.
fn called(state: &State, child: &str, mut decision: Decision) -> Decision {
    if let Some((child, record)) = state.children.by_id(child) {
        let took_part = record.unproven && matches!(decision.answer, Ok(Reply::Offer(_)));
        let mut signs = signs_of_life(child, record);
        signs.extend(took_part.then_some(Change::Children(children::Change::Proven { child })));
        decision.changes.splice(0..0, signs);
    }
    decision
}
