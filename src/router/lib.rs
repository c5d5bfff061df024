//! Routers that aren't ours, as one of ours is led: told the whole of what they are to do, and asked what they do.
//!
//! Invariants, which the conformance suite in `tests/router/` asserts of each kind:
//!
//! 1. Only what was read back from the running router counts as done. `apply` says that it was told, never that it obeys.
//! 2. A change of shares alone reloads nothing (but for TCP and UDP at nginx), loses no call, and moves exactly the buckets that differ. To
//!    apply what is in force already changes nothing.
//! 3. A wanted state of an older number than the newest that was ever applied is refused, whoever asks, and also after the
//!    router or this program was started anew.
//! 4. A configuration that the router's own check refuses is never loaded: the one before stays in force, on disk too.
//! 5. What is ours stands in files, maps and sections of its own, marked; nothing else is written, and nothing else is removed.
//! 6. Whatever instant this program is killed at, `apply` repeated ends where it would have ended.
//! 7. One process at a time writes to a router: it holds a lock beside the router's files.

pub mod adopt;
pub mod aws_alb;
pub mod controller;
pub mod custom;
pub mod disk;
mod error;
pub mod haproxy;
pub mod health;
mod leadership;
pub mod log_line;
pub mod measure;
pub mod names;
pub mod nginx;
pub mod options;
mod ports;
pub mod remote;
pub mod setup;
mod task;
pub mod traefik;

use std::{fmt, future::Future, path::Path, pin::Pin};

pub use self::error::RouterError;
use measure::{Counters, Totals};
use traffic::{
    RouterKind,
    desired::{DesiredConfig, Number},
    observed::ObservedConfig,
};

/// What a router answers with; it is asked through a pointer, so that one can lead several of different kinds.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, RouterError>> + Send + 'a>>;

/// What an operator may ask of whatever splits calls, of any kind.
pub trait Operations: fmt::Debug + Send + Sync {
    fn kind(&self) -> RouterKind;

    /// Whether the router's own check takes its configuration as it is on disk, or another main file beside our parts of it; and
    /// what is marked as ours in it that no wanted state names.
    fn check<'a>(&'a self, config: Option<&'a Path>) -> Answer<'a, Checked>;

    /// Has it load its configuration anew, after a check.
    fn reload(&self) -> Answer<'_, ()>;

    /// The lines by which a service is led that it serves today by its operator's own configuration. Nothing is changed.
    fn adopt<'a>(&'a self, service: &'a str) -> Answer<'a, String>;
}

/// A router of somebody else's, which is told what to do.
pub trait Router: Operations {
    /// Has it do the whole of this, and nothing else of ours. Gives what that took.
    ///
    /// Who drops the answer before it is there may ask for the same again. Another state of the same number is applied too: while
    /// targets are away, less of a wanted state is in force than was wanted ([`traffic::health`]).
    fn apply<'a>(&'a self, wanted: &'a DesiredConfig) -> Answer<'a, Applied>;

    /// What the running router does.
    fn read(&self) -> Answer<'_, ObservedConfig>;

    /// How many connections it has to a variation still: what a drain waits for. None where it doesn't tell.
    fn connections<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Option<u64>>;

    /// How many calls it says have ended, so that it is seen which of them have no line in its log.
    fn totals(&self) -> Answer<'_, Totals> {
        Box::pin(async { Ok(Totals::Untold) })
    }

    /// How many calls of each variation it has counted itself, where its calls are counted so.
    fn counters(&self) -> Answer<'_, Counters> {
        Box::pin(async { Ok(Counters::Not("it isn't asked how calls ended".to_owned())) })
    }
}

/// What a wanted state took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    pub number: Number,
    /// The router loaded its configuration anew, which costs what it costs there.
    pub was_reloaded: bool,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What the router's own check says against the configuration, in its words; none where it takes it.
    pub refused: Option<String>,
    /// What is ours there and belongs to no service that was wanted last.
    pub left_over: Vec<String>,
    /// What the router takes, and whoever looks after it should know of.
    pub warnings: Vec<String>,
}
