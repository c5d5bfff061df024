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

pub mod apart;
pub mod audit;
mod call;
mod classes;
pub mod clock;
mod directory;
pub mod effect;
pub mod ended;
mod gather;
mod handle;
pub mod joining;
pub mod judging;
pub mod kept;
pub mod known;
mod load;
mod mailbox;
pub mod measured;
mod members;
pub mod notify;
pub mod open_questions;
mod outbox;
pub mod pace;
pub mod parent;
mod part;
mod past;
pub mod pointers;
pub mod questions;
mod recall;
pub mod registering;
pub mod replay;
pub mod retention;
pub mod rows;
pub mod shown;
mod start;
pub mod stats;
pub mod stored;
mod task;
pub mod tenants;
pub mod tokens;
mod touched;
mod trouble;
pub mod unreadable;
pub mod view;
pub mod waiters;

pub use handle::Engine;
pub use mailbox::{By, EngineError, UNNAMED};
pub use past::ReleasePage;
pub use start::{Started, start};
pub use stored::ReleaseDetail;
pub use task::Settings as TaskSettings;

/// Parts of the engine that tests try alone, without a store. Nobody else uses them.
#[doc(hidden)]
pub mod tried_alone {
    pub use crate::{
        gather::{Gathering, LONGEST, Wait},
        judging::finite::{can_be_stored, has_only_numbers},
        task::chores::{PRUNE_EVERY, PRUNE_SLICE, prune_again},
        trouble::StoreTrouble,
    };
}
