//! Routers that aren't ours, as one of ours is led: told the whole of what they are to do, and asked what they do.
//!
//! Invariants, which the conformance suite in `tests/router/` asserts of each kind:
//!
//! 1. Only what was read back from the running router counts as done. `apply` says that it was told, never that it obeys.
//! 2. A change of shares alone reloads nothing, loses no call, and moves exactly the buckets that differ. To apply what is in
//!    force already changes nothing.
//! 3. A wanted state of an older number than the newest that was ever applied is refused, whoever asks, and also after the
//!    router or this program was started anew.
//! 4. A configuration that the router's own check refuses is never loaded: the one before stays in force, on disk too.
//! 5. What is ours stands in files, maps and sections of its own, marked; nothing else is written, and nothing else is removed.
//! 6. Whatever instant this program is killed at, `apply` repeated ends where it would have ended.
//! 7. One process at a time writes to a router: it holds a lock beside the router's files.

pub mod controller;
pub mod disk;
mod error;
pub mod haproxy;
pub mod health;
pub mod measure;
pub mod names;
pub mod nginx;
mod ports;
mod task;

use std::{fmt, future::Future, path::Path, pin::Pin};

pub use self::error::RouterError;
use measure::Totals;
use traffic::{
    desired::{DesiredConfig, Number, Protocol},
    health::Grain,
    observed::ObservedConfig,
};

/// What a router answers with; it is asked through a pointer, so that one can lead several of different kinds.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, RouterError>> + Send + 'a>>;

/// Something that splits calls.
pub trait Router: fmt::Debug + Send + Sync {
    fn kind(&self) -> Kind;

    /// Has it do the whole of this, and nothing else of ours. Gives what that took.
    ///
    /// Who drops the answer before it is there may ask for the same again. Another state of the same number is applied too: while
    /// targets are away, less of a wanted state is in force than was wanted ([`traffic::health`]).
    fn apply<'a>(&'a self, wanted: &'a DesiredConfig) -> Answer<'a, Applied>;

    /// What it takes out and gives back without a reload, so that the health of targets never costs one.
    fn grain(&self) -> Grain {
        match self.kind() {
            Kind::Embedded => Grain::Target,
            Kind::Nginx | Kind::Haproxy => Grain::Variation,
        }
    }

    /// What the running router does.
    fn read(&self) -> Answer<'_, ObservedConfig>;

    /// Whether the router's own check takes its configuration as it is on disk, or another main file beside our parts of it; and
    /// what is marked as ours in it that no wanted state names.
    fn check<'a>(&'a self, config: Option<&'a Path>) -> Answer<'a, Checked>;

    /// Has it load its configuration anew, after a check.
    fn reload(&self) -> Answer<'_, ()>;

    /// How many connections it has to a variation still: what a drain waits for. None where it doesn't tell.
    fn connections<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Option<u64>>;

    /// The lines by which a service is led that it serves today by its operator's own configuration. Nothing is changed.
    fn adopt<'a>(&'a self, service: &'a str) -> Answer<'a, String>;

    /// How many calls it says have ended, so that it is seen which of them have no line in its log.
    fn totals(&self) -> Answer<'_, Totals> {
        Box::pin(async { Ok(Totals::Untold) })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Embedded,
    Nginx,
    Haproxy,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Nginx, Self::Haproxy];

    /// As it is written in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }

    /// What calls it leads.
    #[must_use]
    pub fn protocols(self) -> &'static [Protocol] {
        Protocol::of_router(self.name()).unwrap_or_default()
    }

    /// What else it can do. Tests try each, and compare the README's table with what they find.
    #[must_use]
    pub fn can(self) -> &'static Can {
        match self {
            Self::Embedded => &Can {
                sticky: StickyBy { cookie: true, header: true, address: true },
                rule: true,
                counts_connections: true,
                measured: Measured::Counters,
            },
            Self::Nginx | Self::Haproxy => &Can {
                sticky: StickyBy { cookie: true, header: true, address: true },
                rule: true,
                counts_connections: true,
                measured: Measured::Log,
            },
        }
    }
}

/// What a kind of router can do with the calls that it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Can {
    pub sticky: StickyBy,
    /// A header can ask for a variation.
    pub rule: bool,
    /// It tells how many connections a variation has, so that the end of a drain is seen and not only waited for.
    pub counts_connections: bool,
    pub measured: Measured,
}

/// From what its calls are counted, by variation and split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// It counts them itself, with times in microseconds.
    Counters,
    /// From the lines that it logs, with times in milliseconds ([`measure`]).
    Log,
}

impl Measured {
    /// What times are whole steps of, in microseconds: versions that differ by less can't be told apart.
    #[must_use]
    pub fn clock_step_us(self) -> u32 {
        match self {
            Self::Counters => 1,
            Self::Log => measure::STEP_US,
        }
    }
}

/// By what it can keep calls with one variation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a table of what can be done")]
pub struct StickyBy {
    pub cookie: bool,
    pub header: bool,
    pub address: bool,
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
}
