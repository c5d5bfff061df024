//! The call of a child about a release that is over and has left memory, decided on the part of this child alone: what
//! comes late concerns nobody else, and after an outage everybody's last result may come late.
//!
//! The part is taken into the state for as long as the decision takes. If that brings about anything but what is kept of
//! the child itself, nothing of it happens, and the shell brings the whole release.

use super::{
    assignment::Step,
    change::Change,
    command::{Command, LastSeen, NoReply, Reply},
    decide::decide,
    members,
    state::{Release, State},
};
use crate::children;
use model::{Now, ReleaseKey};

/// Whether changes say no more of a release that is over than what one child did late, and what it runs.
pub fn is_late_news(changes: &[Change], release: ReleaseKey) -> bool {
    changes.iter().all(|change| match change {
        Change::Children(children::Change::Paced { .. }) => true,
        Change::Members(
            members::Change::LateKept { .. }
            | members::Change::Deployed { .. }
            | members::Change::Stepped { step: Step::Late { .. }, .. },
        ) => change.release() == Some(release),
        _ => false,
    })
}

/// Decides `then` with the part that was read when `as_of` commands had been decided. Only where the release has left memory.
pub(super) fn advance(
    state: &mut State,
    seen: &dyn LastSeen,
    part: &Release,
    as_of: u64,
    then: &Command,
    now: Now,
) -> (Vec<Change>, Result<Reply, NoReply>) {
    let key = part.key;
    let is_known = state.known.get(&part.id).is_some_and(|known| known.key == key);
    if !is_known || state.last_left > as_of {
        // It may have been here meanwhile: what was read may be out of date.
        return (Vec::new(), Err(NoReply::Missing(key)));
    }
    state.hold(part.clone());
    let decision = decide(state, seen, then, now);
    let is_small = is_late_news(&decision.changes, key);
    if is_small {
        for change in &decision.changes {
            state.apply(change);
        }
    }
    state.put_aside(key, is_small);
    if is_small { (decision.changes, decision.answer) } else { (Vec::new(), Err(NoReply::Missing(key))) }
}
