//! The domain: what a release is, and how it moves. Pure; the time and everything random are arguments.
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

mod advance;
pub mod analysis;
pub mod apply;
pub mod assignment;
pub mod assignments;
pub mod awaited;
pub mod change;
pub mod classes;
mod clock;
pub mod command;
pub mod deadline;
pub mod decide;
pub mod ending;
mod fault;
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
pub mod operation;
pub mod parent;
pub mod part;
pub mod pause;
pub mod precedent;
pub mod prospect;
pub mod queue;
pub mod releases;
mod replan;
pub mod revision;
pub mod rollout;
mod schedule;
pub mod settings;
pub mod settle;
pub mod stages;
mod start;
pub mod state;
pub mod strata;
pub mod summary;
mod text;
pub mod turn;
pub mod turnout;
pub mod waits;

pub use advance::{advance, waiting_offer};
pub use decide::decide;
