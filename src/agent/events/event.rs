//! An event on its way to a part, and what becomes of it there.

use std::time::Duration;

/// How long a function may take with an event.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// An event for a part on this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'e> {
    pub part: &'e str,
    /// The node that it comes from.
    pub node: &'e str,
    pub from: &'e str,
    /// What that instance is called whichever node runs it.
    pub logical: &'e str,
    pub number: u64,
    pub output: &'e str,
    /// How long ago it was put out.
    pub age_ms: u64,
    pub body: &'e [u8],
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The part has it, now or before.
    Taken,
    /// The part will never take it.
    Refused(String),
    /// It is to be tried again.
    Later(String),
}
