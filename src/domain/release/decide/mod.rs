//! Turns a command into changes or a refusal. Pure: the same state, command and time give the same decision.
//!
//! What is asked of a release is decided with its subject; the match below does nothing but dispatch. Here is what is
//! decided of the children, which depends on all releases that they have a part in, and what time brings about.
//! [`super::advance`] applies what is decided here and lets [`super::settle`] draw the consequences.

pub(super) mod checks;
mod children;
pub(super) mod draft;
mod poll;
pub(super) mod successor;
mod tick;

pub(super) use children::take_out;
pub(super) use poll::signs_of_life;

pub use super::members::{NoOffer, form, peek};

use super::{
    analysis,
    command::{Command, Decision, LastSeen, NoReply, Refusal},
    lifecycle, members, parent,
    revision::Tag,
    rollout, stages,
    state::State,
};
use crate::{traffic, workflows};
use model::Now;

/// Decides one command.
pub fn decide(state: &State, seen: &dyn LastSeen, command: &Command, now: Now) -> Decision {
    match command {
        Command::Children(command) => children::decide(state, seen, command, now),
        Command::Lifecycle(command) => lifecycle::decide(state, command, now),
        Command::Rollout(command) => rollout::decide(state, seen, command, now),
        Command::Stages(command) => stages::decide(state, command, now),
        Command::Members(command) => members::decide(state, command, now),
        Command::Parent(command) => parent::decide(state, seen, command, now),
        Command::Analysis(command) => analysis::decide(state, command, now),
        Command::Traffic(command) => traffic::decide(state, command, now),
        Command::Workflows(command) => workflows::decide(state, seen, command, now),
        Command::Tick => tick::decide(state, seen, now),
        Command::Guarded { release, tags, then } => guarded(state, release, tags, then)
            .map_or_else(Decision::from, |()| decide(state, seen, then, now)),
        Command::Recalled { then, .. } | Command::RecalledPart { then, .. } => decide(state, seen, then, now),
    }
}

/// Whether a release is one that was seen; for whoever stops it, however far that went on by itself.
fn guarded(state: &State, id: &str, tags: &[Tag], then: &Command) -> Result<(), NoReply> {
    let release = checks::find(state, id)?;
    let current = release.tag();
    let fits = |tag: &Tag| *tag == current || (stops(then) && release.fits_whoever_stops(*tag));
    if tags.iter().any(fits) {
        return Ok(());
    }
    Err(Refusal::Changed { release: release.id.clone(), current }.into())
}

/// Whether a command holds a release up or takes it back.
const fn stops(command: &Command) -> bool {
    matches!(command, Command::Lifecycle(lifecycle::Command::Pause { .. } | lifecycle::Command::Abort { .. }))
}
