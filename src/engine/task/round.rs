//! What one round of the task gathers.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    error::EngineError,
    mailbox::{By, Decision, NamedArchive},
    row_changes::Touched,
};
use domain::release::{command::Command, state::Snapshot};

/// A command in hand, kept until its batch is committed: if the store refuses the batch, each is tried alone.
pub struct PendingCommand {
    pub command: Arc<Command>,
    pub by: By,
    pub archive: Option<NamedArchive>,
    pub answer: oneshot::Sender<Result<Decision, EngineError>>,
}

/// What one round of the task has gathered.
#[derive(Default)]
pub struct Round {
    pub touched: Touched,
    pub changed: bool,
    pub asked: Vec<(PendingCommand, Result<Decision, EngineError>)>,
    /// Who wants to see the state once this is committed.
    pub looks: Vec<oneshot::Sender<Arc<Snapshot>>>,
    pub archives: Vec<NamedArchive>,
    pub effects_done: Vec<u64>,
    pub pointers_gone: Vec<u64>,
    /// Who waits for the commit alone.
    pub stored: Vec<oneshot::Sender<()>>,
    pub stop: Option<oneshot::Sender<()>>,
}

impl Round {
    /// Whether nobody learns anything from it.
    pub fn is_silent(&self) -> bool {
        !self.changed && self.asked.is_empty() && self.looks.is_empty()
    }
}
