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
//! Deliberately not here: HTTP, storage, rendering of texts, last-seen times (see [`command::LastSeen`]).

mod advance;
pub mod analysis;
pub mod apply;
pub mod archived_call;
pub mod assignment;
pub mod assignments;
pub mod automation;
pub mod change;
mod clock;
pub mod command;
pub mod deadline;
pub mod decide;
mod delegated_offer;
pub mod ending;
mod first_failure;
mod fleet;
pub mod gate;
pub mod lifecycle;
pub mod liveness_check;
pub mod manager;
pub mod measured;
pub mod members;
mod memory;
pub mod next_action;
pub mod offer;
mod offer_text;
pub mod operation;
pub mod parent;
pub mod pause;
pub mod pending_children;
pub mod power_analysis;
pub mod previous_run;
pub mod queue;
pub mod releases;
mod replan;
pub mod revision;
pub mod rollout;
mod schedule;
pub mod settings;
pub mod settle;
pub mod speed_classes;
pub mod stages;
mod start;
pub mod state;
pub mod strata;
pub mod summary;
pub mod waits;

pub use advance::{advance, waiting_offer};
pub use decide::decide;
