//! What lies in the outbox, typed: what is still to be done outside.
//!
//! A row is a kind and a payload; what a payload of a kind looks like is said here alone. One that can't be read, or whose kind
//! is not known, stays in the store for a program that can read it.
//!
//! ```text
//! webhook ─▶ notify        owed, taking ─▶ parent
//! ```

use serde::{Deserialize, Serialize};

use super::json_columns::{self, AgentsForm, Boxed, EndingForm, HistoryForm, Maybe};
use domain::release::{ending::Ending, manager::Agents, speed_classes::Begun};
use language::render::UNDO_STAGE;
use model::{ReleaseId, StageStatus};
use store::{StoreError, rows::OutboxRow};

const WEBHOOK: &str = "webhook";

/// The kind of a result for the parent.
pub const OWED: &str = "upward";

/// The kind of an offer to be taken over.
pub const TAKING: &str = "taking";

/// An entry of the outbox.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    Webhook(Webhook),
    Parent(ToParent),
}

/// What concerns the parent.
#[derive(Debug, Clone, PartialEq)]
pub enum ToParent {
    /// A result that the parent is to hear.
    Owed(Box<ParentStageResult>),
    /// An offer to be taken over, by its id. It is stored before the offer is fetched: the parent doesn't show it again once
    /// it was.
    Taking(String),
}

/// A row of the outbox that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingEffect<T> {
    /// Its id, by which it is said to be done.
    pub row: u64,
    /// The serving time at which it came up.
    pub served_ms: u64,
    pub what: T,
}

impl<T> PendingEffect<T> {
    /// For how long it has waited at this serving time, in milliseconds.
    pub const fn age_ms(&self, served_ms: u64) -> u64 {
        served_ms.saturating_sub(self.served_ms)
    }
}

/// A call to a URL; see [`crate::notify`].
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Webhook {
    pub body: serde_json::Value,
    pub url: String,
}

/// The address may be a secret.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("body", &self.body).finish_non_exhaustive()
    }
}

/// How a stage of the parent's offer ended here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentStageResult {
    pub offer: String,
    /// The release here; `None`: the offer could not become one.
    pub release: Option<ReleaseId>,
    pub release_key: u32,
    /// `None`: the stage that the parent believes this manager to be in.
    pub stage: Option<String>,
    /// Under which the children's results of it are stored.
    pub slot: u8,
    pub status: StageStatus,
    /// The stage that this manager goes on to: a plain parent has to hear it, or takes the release for over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The percentage of the calls that the new version gets in that stage.
    #[serde(default)]
    pub split: u8,
    /// The parent is told classes of children by their speed before the release: how these are found.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<HistoryForm>")]
    pub begun: Option<Begun>,
    /// Of the moment in which it was over.
    #[serde(default, with = "AgentsForm")]
    pub agents: Agents,
    /// Why it ended badly, or who did within the limits.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<EndingForm>>")]
    pub why: Option<Box<Ending>>,
    /// It was said before, and the agents stand otherwise now: for the how manyth time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recount: Option<u32>,
}

impl ParentStageResult {
    /// A release is taken back, as the parent ordered by this offer.
    pub fn undone(offer: String, unconfirmed: u32) -> Self {
        Self {
            offer,
            release: None,
            release_key: 0,
            stage: Some(UNDO_STAGE.to_owned()),
            slot: 0,
            split: 0,
            begun: None,
            status: StageStatus::Completed,
            next: None,
            agents: Agents { unconfirmed, ..Agents::default() },
            why: None,
            recount: None,
        }
    }
}

impl From<ParentStageResult> for Entry {
    fn from(owed: ParentStageResult) -> Self {
        Self::Parent(ToParent::Owed(Box::new(owed)))
    }
}

impl Entry {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Webhook(_) => WEBHOOK,
            Self::Parent(ToParent::Owed(_)) => OWED,
            Self::Parent(ToParent::Taking(_)) => TAKING,
        }
    }

    /// As it is stored.
    pub fn payload(&self) -> Result<String, StoreError> {
        match self {
            Self::Webhook(webhook) => json_columns::json(webhook),
            Self::Parent(ToParent::Owed(owed)) => json_columns::json(owed),
            Self::Parent(ToParent::Taking(offer)) => Ok(offer.clone()),
        }
    }

    pub fn read(row: &OutboxRow) -> Result<Self, StoreError> {
        Ok(match row.kind.as_str() {
            WEBHOOK => Self::Webhook(json_columns::payload(row)?),
            OWED => Self::Parent(ToParent::Owed(json_columns::payload(row)?)),
            TAKING => Self::Parent(ToParent::Taking(json_columns::taken_offer(row)?)),
            other => return Err(json_columns::bad("outbox", row.id, "kind", format!("{other:?} is none"))),
        })
    }
}
