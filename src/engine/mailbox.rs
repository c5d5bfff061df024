//! What is said to the engine's task, and what it answers.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{audit::Actor, effect::Entry, error::EngineError, principals::Principal, settings::Setting};
use ab_releases::Kind;
use domain::release::{
    command::{Command, Reply},
    state::Snapshot,
};
use model::{ReleaseId, ReleaseKey};
use store::rows::RegisteredRow;

/// Commands that wait for the engine; more are refused until it has caught up.
pub(super) const MAILBOX: usize = 16_384;

/// The name in the audit trail of an operator who gave none.
pub const UNNAMED: &str = "unnamed";

/// Who asks, and what for.
#[derive(Debug, Clone)]
pub struct By {
    pub actor: Actor,
    /// Shown in the audit trail.
    pub note: Option<String>,
}

impl By {
    pub const CHILD: Self = Self { actor: Actor::Child, note: None };

    /// Whether an operator gave no name.
    pub fn is_unnamed(&self) -> bool {
        match &self.actor {
            Actor::Operator(name) => name.rsplit('/').next() == Some(UNNAMED),
            Actor::Child | Actor::Timer | Actor::Analysis | Actor::Parent | Actor::Redis => false,
        }
    }
}

pub(super) type Answer = Result<Reply, EngineError>;

/// What the engine's task makes of a command.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are replies")]
pub(super) enum Decision {
    Reply(Reply),
    /// It is about a release that has left memory, and nothing is said before that is recalled.
    Missing(ReleaseKey),
}

/// An archive and the digest that names it.
pub(super) type NamedArchive = ([u8; 32], Bytes);

/// What lies in the mailbox.
pub(super) enum Envelope {
    Command {
        command: Arc<Command>,
        by: By,
        archive: Option<NamedArchive>,
        answer: oneshot::Sender<Result<Decision, EngineError>>,
    },
    /// Whoever reads wants to see the state as it is committed.
    Look(oneshot::Sender<Arc<Snapshot>>),
    EffectsDone(Vec<u64>),
    PointersGone(Vec<u64>),
    Effect {
        entry: Entry,
        stored: oneshot::Sender<()>,
    },
    Keep {
        setting: Setting,
        /// What is said of it in the audit trail, and who did it.
        event: Option<(Actor, String)>,
        stored: oneshot::Sender<()>,
    },
    /// What releases of services may name is written or removed, unless one that is not over names it.
    Register {
        row: RegisteredRow,
        kind: Kind,
        /// What is said of it in the audit trail, and who did it.
        event: (Actor, String),
        /// The release that names it.
        in_use: oneshot::Sender<ReleaseId>,
        stored: oneshot::Sender<()>,
    },
    /// Whoever is named is known from now on; who was before stays as they were.
    Know {
        known: Vec<Principal>,
        stored: oneshot::Sender<()>,
    },
    /// Something is written into the audit trail that is no change of the state.
    Note {
        event: (Actor, String),
        stored: oneshot::Sender<()>,
    },
    Stop(oneshot::Sender<()>),
}
