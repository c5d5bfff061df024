//! The shell around the domain: one task that writes, a view that everybody reads.
//!
//! ```text
//! call ─▶ mailbox ─▶ task: drain, advance each command, commit the batch, publish, answer
//!                                                        │            │
//!                                                     store         view ◀── /poll, /end_stage, repeats
//! ```
//!
//! Invariants:
//! - an answer is given only after the commit that it depends on, so no answer reveals what a crash could undo;
//! - a failed commit publishes nothing; the batch is tried again as it was until the store says which it is;
//! - readers never wait for the task: what they read is published in atomics and concurrent maps.
//!
//! Deliberately not here: what a command means ([`domain::release`]), how rows are stored ([`store`]).

mod archived_calls;
mod archived_releases;
pub mod audit;
pub mod blocking;
mod call;
pub mod changed;
pub mod clock;
mod directory;
pub mod effect;
pub mod end_notification;
mod error;
pub mod fleet_check;
pub mod forwarded_releases;
mod gather;
mod handle;
pub mod identity;
pub mod intents;
pub mod joining;
pub mod json_columns;
pub mod judging;
mod load;
mod mailbox;
pub mod measurements;
mod members;
pub mod notify;
pub mod open_questions;
mod outbox;
pub mod pace;
pub mod parent;
mod participation;
pub mod placing;
pub mod presentation;
pub mod principals;
pub mod questions;
pub mod registering;
pub mod replay;
pub mod retention;
mod row_changes;
pub mod rows;
pub mod settings;
mod speed_classes;
pub mod stage_measurements;
mod start;
pub mod stats;
mod store_outage;
mod task;
pub mod tenants;
pub mod tokens;
pub mod unreadable;
pub mod view;
pub mod waiters;

pub use archived_releases::ReleasePage;
pub use error::EngineError;
pub use handle::Engine;
pub use json_columns::ReleaseDetail;
pub use mailbox::{By, UNNAMED};
pub use start::{RunningEngine, start};
pub use task::Settings as TaskSettings;

/// Parts of the engine that tests try alone, without a store. Nobody else uses them.
#[doc(hidden)]
pub mod tried_alone {
    pub use crate::{
        gather::{Gathering, LONGEST, Wait},
        judging::finite::{can_be_stored, has_only_numbers},
        store_outage::StoreTrouble,
        task::chores::{PRUNE_EVERY, PRUNE_SLICE, prune_again},
    };
}
