//! Runtimes start and stop versions of functions. What a call is answered by is the proxy's to say: a runtime knows no shares.
//!
//! Invariants, which the conformance suite in `tests/agent/` asserts of each runtime:
//!
//! 1. A version is named by the digest of its content. Nothing is replaced: versions are added and removed, and the content of
//!    one that runs is a copy that nobody else changes.
//! 2. When `start` returns a version, it answers. When it fails, nothing of the version is left, unless it was there before.
//! 3. Versions outlive the runtime's own process. Whoever opens the runtime again finds them by `list`, with their targets.
//! 4. After `stop`, nothing of a version is left: no process, however it was made, no socket and no folder.
//! 5. `start` and `stop` may be repeated: who asks for what is there already gets it.
//!
//! The calls in flight are the proxy's too: it drains a version before it is stopped.

mod check;
mod error;
pub mod oci;
mod order;
mod pack;
pub mod process;
mod state;
pub mod tinyfaas;
mod version;
mod version_locks;
pub mod wasm;
pub mod webhook;

use std::{fmt, future::Future, pin::Pin, time::Duration};

pub use language::functions::form;
use proxy::live::Target;

pub use self::{
    error::{Fault, RuntimeError},
    order::{Health, Limits, Order, WarmUp},
    state::{Exit, Phase},
    version::{VersionId, VersionIdError},
};

/// What a runtime answers with; it is asked through a pointer, so that an agent can have several.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, RuntimeError>> + Send + 'a>>;

/// Something that can run versions.
pub trait Runtime: fmt::Debug + Send + Sync {
    /// What it is called in configuration and offers.
    fn name(&self) -> &'static str;

    /// The forms of functions that it can run on this machine, in order of their names: `nodejs`, `python`, …
    fn runners(&self) -> Vec<&'static str>;

    /// Whether somebody else runs its versions, who may be out of reach for a while.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Whether it holds versions to a limit of processors here.
    fn holds_cpu(&self) -> bool {
        false
    }

    /// Starts a version and waits until it answers and is warm. One that runs already is not started twice, but waited for.
    ///
    /// Who drops the answer before it is there leaves a version that is listed and may be stopped.
    fn start<'a>(&'a self, order: &'a Order) -> Answer<'a, Running>;

    /// All versions that are there, in order of their names. Called first, it finds those of a former process, and clears away
    /// what that left half done.
    fn list(&self) -> Answer<'_, Vec<Running>>;

    /// Waits until it is to be asked at once what runs. One that doesn't hear of that by itself waits for ever.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    /// Ends a version: it is asked to, and after the grace it is killed. A version that isn't there is ended already.
    fn stop<'a>(&'a self, version: &'a VersionId, grace: Duration) -> Answer<'a, ()>;

    /// What a version has written, of which at most so many bytes, the newest; `None` where the runtime has no log of it.
    fn log<'a>(&'a self, version: &'a VersionId, at_most: usize) -> Answer<'a, Option<Vec<u8>>>;
}

/// What runtimes are called in configurations, in order.
pub const NAMES: [&str; 5] = ["oci", "process", "tinyfaas", "wasm", "webhook"];

/// What is said where a runtime is named that doesn't exist.
#[must_use]
pub fn unknown(name: &str) -> String {
    let near = language::nearest(name, NAMES).map(|near| format!("; did you mean {near}?"));
    format!("there is no runtime {name:?}; there are {}{}", NAMES.join(", "), near.unwrap_or_default())
}

/// A version that was started and not stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub version: VersionId,
    /// The form that its function has.
    pub runner: String,
    /// Where it listens, for as long as it is there.
    pub target: Target,
    pub phase: Phase,
    /// The process that was started for it; `None` while there is none.
    pub pid: Option<u32>,
    /// How often it ended by itself and was started again.
    pub restarts: u64,
    /// How it ended when it last did.
    pub last_exit: Option<Exit>,
}
